//! The rule about the library's public names: one block of re-exports in `src/lib.rs`, and no public module but the
//! prelude and the two that are hidden.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::Finding;
use super::names::is_for_tests;
use super::tree::{File, Tree};

const FACADE: &str = "src/lib.rs";

/// The hidden public modules, and the attributes that each must carry.
const HIDDEN: &[(&str, &[&str])] = &[
    ("__cli", &["#[doc(hidden)]", "#[cfg(feature = \"cli\")]"]),
    ("__fuzz", &["#[doc(hidden)]", "#[cfg(fuzzing)]"]),
];

pub(super) fn public_names_are_in_one_block(tree: &Tree) -> Vec<Finding> {
    let Some((file, syntax)) = tree.file(FACADE).and_then(|file| Some((file, file.syntax()?))) else {
        return vec![Finding::new(FACADE, 1, "the library has no façade that parses")];
    };
    let mut findings = in_the_facade(file, syntax);
    for file in tree.files().iter().filter(|file| file.module().is_some_and(|module| !module.is_empty())) {
        let Some(syntax) = file.syntax() else { continue };
        let mut modules = PublicModules { file: &file.path, findings: &mut findings };
        modules.visit_file(syntax);
    }
    findings
}

fn in_the_facade(file: &File, syntax: &syn::File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line, message: String| findings.push(Finding::new(&file.path, line, message));
    let mut block_ended = false;
    let mut previous_is_export = false;
    for item in &syntax.items {
        let line = first_line(item);
        let is_export = matches!(item, syn::Item::Use(item) if is_public(&item.vis));
        match item {
            syn::Item::Use(_) if is_export && block_ended => {
                report(line, "a second block of public names; there is one".to_owned());
            }
            syn::Item::Use(item) if is_export && has_glob(&item.tree) => {
                report(line, "public names are written out, not exported by a glob".to_owned());
            }
            syn::Item::Mod(module) if is_public(&module.vis) => {
                if let Err(message) = may_be_public(module) {
                    report(line, message);
                }
            }
            // Private modules, private imports, `compile_error!`s and tests are nobody else's business.
            _ => {
                if let Some(name) = public_item(item) {
                    report(line, format!("`{name}` is defined here; `lib.rs` only re-exports"));
                }
            }
        }
        block_ended |= previous_is_export && !is_export;
        previous_is_export = is_export;
    }
    findings
}

fn may_be_public(module: &syn::ItemMod) -> Result<(), String> {
    let name = module.ident.to_string();
    if name == "prelude" {
        let items = module.content.as_ref().map(|(_, items)| items.as_slice());
        let only_exports = items.is_some_and(|items| {
            items.iter().all(|item| matches!(item, syn::Item::Use(item) if is_public(&item.vis)))
        });
        return if only_exports { Ok(()) } else { Err("the prelude only re-exports".to_owned()) };
    }
    let Some((_, needed)) = HIDDEN.iter().find(|(hidden, _)| *hidden == name) else {
        return Err(format!("`{name}` is a public module; re-export its names instead"));
    };
    let attributes: Vec<_> = module.attrs.iter().map(spelled).collect();
    match needed.iter().find(|needed| !attributes.contains(&needed.replace(' ', ""))) {
        None => Ok(()),
        Some(missing) => Err(format!("`{name}` lacks `{missing}`")),
    }
}

/// Without spaces, so that formatting does not matter.
fn spelled(attribute: &syn::Attribute) -> String {
    let meta = match &attribute.meta {
        syn::Meta::List(list) => format!("{}({})", path(&list.path), list.tokens),
        syn::Meta::Path(name) => path(name),
        syn::Meta::NameValue(pair) => path(&pair.path),
    };
    format!("#[{meta}]").replace(' ', "")
}

fn path(path: &syn::Path) -> String {
    path.get_ident().map(ToString::to_string).unwrap_or_default()
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn has_glob(tree: &syn::UseTree) -> bool {
    match tree {
        syn::UseTree::Path(part) => has_glob(&part.tree),
        syn::UseTree::Group(group) => group.items.iter().any(has_glob),
        syn::UseTree::Glob(_) => true,
        syn::UseTree::Name(_) | syn::UseTree::Rename(_) => false,
    }
}

/// The name of an item that is public and defined on the spot.
fn public_item(item: &syn::Item) -> Option<String> {
    let (visibility, name) = match item {
        syn::Item::Const(item) => (&item.vis, &item.ident),
        syn::Item::Enum(item) => (&item.vis, &item.ident),
        syn::Item::ExternCrate(item) => (&item.vis, &item.ident),
        syn::Item::Fn(item) => (&item.vis, &item.sig.ident),
        syn::Item::Static(item) => (&item.vis, &item.ident),
        syn::Item::Struct(item) => (&item.vis, &item.ident),
        syn::Item::Trait(item) => (&item.vis, &item.ident),
        syn::Item::TraitAlias(item) => (&item.vis, &item.ident),
        syn::Item::Type(item) => (&item.vis, &item.ident),
        syn::Item::Union(item) => (&item.vis, &item.ident),
        syn::Item::Macro(item) => {
            let exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
            return exported.then(|| item.ident.as_ref().map(ToString::to_string)).flatten();
        }
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// Past the attributes and the documentation.
fn first_line(item: &syn::Item) -> usize {
    let span = match item {
        syn::Item::Use(item) => item.vis.span(),
        syn::Item::Mod(item) => item.ident.span(),
        syn::Item::Fn(item) => item.sig.ident.span(),
        syn::Item::Struct(item) => item.ident.span(),
        syn::Item::Enum(item) => item.ident.span(),
        syn::Item::Trait(item) => item.ident.span(),
        syn::Item::Type(item) => item.ident.span(),
        other => other.span(),
    };
    span.start().line
}

/// `pub mod` below the façade, but for tests.
struct PublicModules<'a> {
    file: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl<'ast> Visit<'ast> for PublicModules<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.attrs.iter().any(is_for_tests) {
            return;
        }
        if is_public(&module.vis) {
            let message = format!("`{}` is a public module; make it `pub(crate)`", module.ident);
            self.findings.push(Finding::new(self.file, module.ident.span().start().line, message));
        }
        visit::visit_item_mod(self, module);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, check};
    use super::{FACADE, public_names_are_in_one_block as facade};

    #[test]
    fn what_is_not_a_facade_is_found() {
        let cases: &[(&str, &[usize])] = &[
            ("mod a;\npub use a::A;\nmod b;\npub use b::B;", &[4]),
            ("mod a;\npub use a::A;\npub use a::{B, C};\n#[cfg(unix)]\npub use a::D;", &[]),
            ("mod a;\npub use a::*;", &[2]),
            ("pub mod a;", &[1]),
            ("/// Doc.\npub fn main() {}", &[2]),
            ("pub struct A;\nstruct B;", &[1]),
            ("#[macro_export]\nmacro_rules! m { () => {} }", &[1]),
            ("pub mod prelude {\n    pub struct A;\n}", &[1]),
            ("pub mod prelude;", &[1]),
            ("#[cfg(feature = \"cli\")]\npub mod __cli;", &[2]),
            ("#[doc(hidden)]\npub mod __cli {}", &[2]),
            ("#[doc(hidden)]\n#[cfg(feature = \"cli\")]\npub mod __cli {}", &[]),
            ("#[doc(hidden)]\n#[cfg(fuzzing)]\npub mod __fuzz {}", &[]),
            ("#[doc(hidden)]\n#[cfg(feature = \"cli\")]\npub mod __fuzz {}", &[3]),
        ];
        for (code, lines) in cases {
            check(facade, FACADE, code, lines);
        }
    }

    #[test]
    fn a_public_module_below_the_facade_is_found() {
        check(facade, "src/model/id.rs", "pub(crate) mod a {\n    pub mod b {}\n}", &[3]);
        check(facade, "src/model/id.rs", "#[cfg(test)]\npub mod tests {}", &[]);
    }

    #[test]
    fn a_library_without_a_facade_is_found() {
        let sample = Sample::good();
        sample.remove(FACADE);
        sample.assert_lines(facade, FACADE, &[1]);
    }
}
