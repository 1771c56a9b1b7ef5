//! What the library's modules name: every path in imports, expressions, types, attributes and macros, made absolute.
//!
//! A name is followed through `self`, `super`, renames and re-exports, so that a module cannot reach another one
//! under a different spelling. What comes in by a glob is not followed; the glob itself is a mention.

use std::collections::{HashMap, HashSet};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::tree::File;

/// Renames and re-exports are followed this many times; a longer chain can only be a cycle.
const MAX_HOPS: usize = 32;

/// A name, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) file: String,
    pub(super) line: usize,
    /// The module it stands in.
    pub(super) module: Vec<String>,
    /// `crate::…` for the library's own modules, else it begins with the name of a crate (or of a local).
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
    /// Whether it is compiled for tests only.
    pub(super) in_test: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Glob,
    Macro,
}

impl Mention {
    pub(super) fn spelled(&self) -> String {
        self.path.join("::")
    }

    /// Whether it stands in `module` (`a::b`) or below.
    pub(super) fn stands_in(&self, module: &str) -> bool {
        begins_with(&self.module, module)
    }

    /// Whether it names `path` (`crate::a`, `std::fs`) or something in it.
    pub(super) fn reaches(&self, path: &str) -> bool {
        begins_with(&self.path, path)
    }
}

fn begins_with(segments: &[String], prefix: &str) -> bool {
    let mut segments = segments.iter();
    prefix.split("::").all(|part| segments.next().is_some_and(|segment| segment == part))
}

pub(super) fn mentions(files: &[File]) -> Vec<Mention> {
    let mut raw = Vec::new();
    let mut scopes = Scopes::default();
    for file in files {
        let (Some(module), Some(syntax)) = (file.module(), file.syntax()) else { continue };
        scopes.modules.insert(module.clone());
        let mut reader =
            Reader { file: &file.path, module, in_test: false, raw: &mut raw, scopes: &mut scopes };
        reader.visit_file(syntax);
    }
    for mention in &mut raw {
        mention.in_test |= scopes.test_modules.iter().any(|test| mention.module.starts_with(test));
        mention.path = scopes.resolve(&mention.module, &mention.path);
    }
    raw
}

/// What the crate declares, over all its files.
#[derive(Debug, Default)]
struct Scopes {
    modules: HashSet<Vec<String>>,
    /// Modules declared by `#[cfg(test)] mod name;`.
    test_modules: Vec<Vec<String>>,
    /// Per module: a name that an import brings in, and the path as the import spells it.
    imports: HashMap<Vec<String>, HashMap<String, Vec<String>>>,
}

impl Scopes {
    fn resolve(&self, module: &[String], path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        let mut module = module.to_vec();
        for _ in 0..MAX_HOPS {
            path = self.absolute(&module, path);
            let Some((home, imported, rest)) = self.first_import(&module, &path) else { break };
            path = imported.iter().chain(rest).cloned().collect();
            module = home;
        }
        path
    }

    /// Makes `self`, `super` and child modules begin with `crate`.
    fn absolute(&self, module: &[String], path: Vec<String>) -> Vec<String> {
        let crate_root = || vec!["crate".to_owned()];
        match path.first().map(String::as_str) {
            Some("self") => {
                crate_root().into_iter().chain(module.to_vec()).chain(path[1..].to_vec()).collect()
            }
            Some("super") => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                let kept = module[..module.len().saturating_sub(up)].to_vec();
                crate_root().into_iter().chain(kept).chain(path[up..].to_vec()).collect()
            }
            Some(first) => {
                let child: Vec<_> =
                    module.iter().map(String::as_str).chain([first]).map(str::to_owned).collect();
                if first != "crate" && self.modules.contains(&child) {
                    crate_root().into_iter().chain(module.to_vec()).chain(path).collect()
                } else {
                    path
                }
            }
            None => path,
        }
    }

    /// The first segment that an import brought in: the module of the import, its path, and what follows.
    fn first_import<'a>(
        &'a self,
        module: &[String],
        path: &'a [String],
    ) -> Option<(Vec<String>, &'a [String], &'a [String])> {
        let (first, rest) = path.split_first()?;
        if first != "crate" {
            let imported = self.imports.get(module)?.get(first)?;
            // `use anyhow::anyhow` names the crate, not itself.
            return (imported.first() != Some(first)).then(|| (module.to_vec(), imported.as_slice(), rest));
        }
        (0..rest.len()).find_map(|at| {
            let (home, tail) = rest.split_at(at);
            if self.modules.contains(&rest[..=at]) {
                return None;
            }
            let imported = self.imports.get(home)?.get(&tail[0])?;
            Some((home.to_vec(), imported.as_slice(), &tail[1..]))
        })
    }
}

struct Reader<'a> {
    file: &'a str,
    module: Vec<String>,
    in_test: bool,
    raw: &'a mut Vec<Mention>,
    scopes: &'a mut Scopes,
}

impl Reader<'_> {
    fn mention(&mut self, path: Vec<String>, line: usize, kind: Kind) {
        self.raw.push(Mention {
            file: self.file.to_owned(),
            line,
            module: self.module.clone(),
            path,
            kind,
            in_test: self.in_test,
        });
    }

    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let line = tree.span().start().line;
        let extended = |name: &syn::Ident| {
            let mut path = prefix.to_vec();
            // `use a::{self}` names `a` itself; at the head of a path `self` is this module.
            if name != "self" || path.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            syn::UseTree::Path(part) => self.use_tree(&extended(&part.ident), &part.tree),
            syn::UseTree::Name(part) => {
                let path = extended(&part.ident);
                let name = path.last().cloned().unwrap_or_default();
                self.import(name, path, line);
            }
            syn::UseTree::Rename(part) => self.import(part.rename.to_string(), extended(&part.ident), line),
            syn::UseTree::Glob(_) => self.mention(prefix.to_vec(), line, Kind::Glob),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(prefix, item)),
        }
    }

    fn import(&mut self, name: String, path: Vec<String>, line: usize) {
        self.scopes.imports.entry(self.module.clone()).or_default().insert(name, path.clone());
        self.mention(path, line, Kind::Name);
    }

    /// Paths in tokens that are not parsed: the insides of macros and of attributes.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        // Colons seen since the last identifier; two of them carry the path on.
        let mut colons = 0;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.flush(&mut path, line, Kind::Name);
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    let joined = punct.spacing() == Spacing::Joint || colons == 1;
                    colons = if joined { colons + 1 } else { 0 };
                    if colons == 0 {
                        self.flush(&mut path, line, Kind::Name);
                    }
                }
                TokenTree::Punct(punct)
                    if punct.as_char() == '!' && matches!(tokens.peek(), Some(TokenTree::Group(_))) =>
                {
                    self.flush(&mut path, line, Kind::Macro);
                }
                TokenTree::Group(group) => {
                    self.flush(&mut path, line, Kind::Name);
                    self.tokens(group.stream());
                }
                TokenTree::Literal(literal) => {
                    self.flush(&mut path, line, Kind::Name);
                    self.quoted(&literal);
                }
                TokenTree::Punct(_) => self.flush(&mut path, line, Kind::Name),
            }
        }
        self.flush(&mut path, line, Kind::Name);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize, kind: Kind) {
        let path = std::mem::take(path);
        if path.len() > 1 || kind == Kind::Macro && !path.is_empty() {
            self.mention(path, line, kind);
        }
    }

    /// Attributes name paths in strings: `#[serde(with = "crate::a")]`.
    fn quoted(&mut self, literal: &proc_macro2::Literal) {
        let syn::Lit::Str(string) = syn::Lit::new(literal.clone()) else { return };
        let Ok(path) = string.parse::<syn::Path>() else { return };
        if matches!(path.segments[0].ident.to_string().as_str(), "crate" | "self" | "super") {
            self.mention(segments(&path), literal.span().start().line, Kind::Name);
        }
    }

    fn within(&mut self, attributes: &[syn::Attribute], inside: impl FnOnce(&mut Self)) {
        let outer = self.in_test;
        self.in_test |= attributes.iter().any(is_for_tests);
        inside(self);
        self.in_test = outer;
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// `#[test]`, `#[tokio::test]`, `#[cfg(test)]`.
pub(super) fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|segment| segment.ident == "test")
        || attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.within(&item.attrs, |reader| reader.use_tree(&[], &item.tree));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(&item.attrs, |reader| {
            reader.module.push(item.ident.to_string());
            reader.scopes.modules.insert(reader.module.clone());
            if item.content.is_none() && reader.in_test {
                reader.scopes.test_modules.push(reader.module.clone());
            }
            visit::visit_item_mod(reader, item);
            reader.module.pop();
        });
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.attrs, |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.within(&item.attrs, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.attrs, |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.mention(segments(path), path.span().start().line, Kind::Name);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.mention(segments(&mac.path), mac.path.span().start().line, Kind::Macro);
        self.tokens(mac.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
    }
}
