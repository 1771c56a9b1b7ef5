//! Rules about the shape of a file: it parses, it is short, it opens by saying what it owns, and it is the module
//! that its path says.

use syn::spanned::Spanned as _;

use super::Finding;
use super::names::is_for_tests;
use super::tree::{File, Tree};

/// Lines of a file without its tests.
const MAX_LINES: usize = 400;

/// Rust files that people work on. Fixtures are input, also ones that do not parse on purpose.
fn ours(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files().iter().filter(|file| file.is_rust() && !is_fixture(&file.path))
}

pub(super) fn is_fixture(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "fixtures" | "fail"))
}

pub(super) fn every_file_parses(tree: &Tree) -> Vec<Finding> {
    let broken = |file: &File| {
        let error = file.rust.as_ref()?.as_ref().err()?;
        Some(Finding::new(&file.path, error.span().start().line, format!("does not parse: {error}")))
    };
    ours(tree).filter_map(broken).collect()
}

pub(super) fn files_are_short(tree: &Tree) -> Vec<Finding> {
    let too_long = |file: &File| {
        let lines = file.lines().count() - lines_of_tests(file);
        (lines > MAX_LINES).then(|| {
            let message = format!("{lines} lines without its tests; split it (at most {MAX_LINES})");
            Finding::new(&file.path, MAX_LINES + 1, message)
        })
    };
    ours(tree).filter_map(too_long).collect()
}

fn lines_of_tests(file: &File) -> usize {
    let modules = file.syntax().into_iter().flat_map(|syntax| &syntax.items).filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module),
        _ => None,
    });
    let tests = modules.filter(|module| module.attrs.iter().any(is_for_tests));
    // The attribute's line belongs to it.
    tests.map(|module| module.span().end().line - module.span().start().line + 1).sum()
}

pub(super) fn modules_say_what_they_own(tree: &Tree) -> Vec<Finding> {
    ours(tree)
        .filter(|file| !file.text.starts_with("//!") || file.text.starts_with("//!\n"))
        .map(|file| Finding::new(&file.path, 1, "the first line is not `//!` with what the module owns"))
        .collect()
}

/// The other rules take a module's path from its file's path.
pub(super) fn modules_lie_where_their_path_says(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in ours(tree).filter(|file| file.path.starts_with("src/")) {
        for item in file.syntax().iter().flat_map(|syntax| &syntax.items) {
            let syn::Item::Mod(module) = item else { continue };
            // What only tests compile has no place in the architecture.
            if module.attrs.iter().any(is_for_tests) {
                continue;
            }
            for attribute in module.attrs.iter().filter(|attribute| attribute.path().is_ident("path")) {
                let message = "`#[path]` hides which module this is; move the file";
                findings.push(Finding::new(&file.path, attribute.span().start().line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, check};
    use super::{
        MAX_LINES, every_file_parses, files_are_short, modules_lie_where_their_path_says,
        modules_say_what_they_own,
    };

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        check(every_file_parses, "src/model/id.rs", "fn f() {\n    let = 1;\n}", &[3]);
        check(every_file_parses, "tests/fixtures/broken/src/lib.rs", "fn f( {", &[]);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let code = |lines: usize| "fn f() {}\n".repeat(lines - 1);
        check(files_are_short, "src/model/id.rs", code(MAX_LINES).trim_end(), &[]);
        check(files_are_short, "src/model/id.rs", code(MAX_LINES + 1).trim_end(), &[MAX_LINES + 1]);
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}", code(MAX_LINES), code(MAX_LINES));
        check(files_are_short, "src/model/id.rs", &with_tests, &[]);
        let tests_first = format!("#[cfg(test)]\nmod tests {{\n}}\n{}", code(MAX_LINES + 1));
        check(files_are_short, "src/model/id.rs", tests_first.trim_end(), &[MAX_LINES + 1]);
    }

    #[test]
    fn a_module_without_a_head_is_found() {
        for head in ["", "// Ids.\n", "\n//! Ids.\n", "//!\n//! Ids.\n", "/// Ids.\n"] {
            for path in
                ["src/model/id.rs", "xtask/src/main.rs", "tests/cli.rs", "examples/blog/auth/src/main.rs"]
            {
                let sample = Sample::good();
                sample.write(path, &format!("{head}fn main() {{}}\n"));
                sample.assert_lines(modules_say_what_they_own, path, &[1]);
            }
        }
    }

    #[test]
    fn a_module_whose_file_lies_elsewhere_is_found() {
        let code = "mod a;\n#[path = \"elsewhere.rs\"]\nmod b;";
        check(modules_lie_where_their_path_says, "src/model/id.rs", code, &[3]);
    }
}
