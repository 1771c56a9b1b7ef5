//! Rules that are read off the text of every file, not only Rust: tests that are switched off, examples that do not run,
//! leftovers, and names of machines and registries.

use syn::spanned::Spanned as _;
use syn::visit::Visit;

use super::Finding;
use super::shape::is_fixture;
use super::tree::{File, Tree};

// Written in two parts where this file would find itself.
const LEFTOVERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Beginnings of paths that exist on somebody's machine.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/tmp", "/wt"),
];

const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
];

pub(super) fn tests_are_not_switched_off(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if let Some(syntax) = file.syntax() {
            SwitchedOff { file: &file.path, findings: &mut findings }.visit_file(syntax);
        }
    }
    findings
}

struct SwitchedOff<'a> {
    file: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl<'ast> Visit<'ast> for SwitchedOff<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let message = if attribute.path().is_ident("ignore") {
            "a test that never runs shows nothing; mend it or remove it"
        } else if attribute.path().is_ident("should_panic") {
            "any panic passes this test; assert the error, or catch this panic"
        } else {
            return;
        };
        self.findings.push(Finding::new(self.file, attribute.span().start().line, message));
    }
}

pub(super) fn examples_run(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let markdown = has_extension(file, "md");
        if !markdown && !file.is_rust() {
            continue;
        }
        for (line, text) in file.lines() {
            let text = text.trim_start();
            let comment = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
            let prose = if markdown { Some(text) } else { comment };
            let Some(info) = prose.and_then(|prose| prose.trim_start().strip_prefix("```")) else { continue };
            if info.split([',', ' ']).any(|word| word.trim() == "ignore") {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    "an example that is not compiled; use `no_run` or `text`",
                ));
            }
        }
    }
    findings
}

pub(super) fn nothing_is_left_over(tree: &Tree) -> Vec<Finding> {
    in_text(tree, |line| {
        LEFTOVERS
            .iter()
            .find(|word| has_word(line, word))
            .map(|word| format!("{word}: do it, or say it in an issue"))
    })
}

pub(super) fn no_machine_and_no_registry_is_named(tree: &Tree) -> Vec<Finding> {
    in_text(tree, |line| {
        if let Some(path) = MACHINE_PATHS.iter().find(|path| begins_a_path(line, path)) {
            return Some(format!("`{path}…` is a path of one machine"));
        }
        let host = REGISTRY_HOSTS.iter().find(|host| line.contains(**host))?;
        Some(format!("`{host}` is a registry's host; name the package, and let its client find it"))
    })
}

fn in_text(tree: &Tree, wrong: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Lockfiles are written by programs, fixtures are input.
    for file in tree.files().iter().filter(|file| !has_extension(file, "lock") && !is_fixture(&file.path)) {
        for (number, line) in file.lines() {
            findings.extend(wrong(line).map(|message| Finding::new(&file.path, number, message)));
        }
    }
    findings
}

fn has_extension(file: &File, extension: &str) -> bool {
    file.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// `word`, not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next())
    })
}

/// `path` at the beginning of an absolute path: not `src/work/`, not a URL's `example.com/home/`.
fn begins_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '}' | ')' | '*' | '~')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, check};
    use super::{
        LEFTOVERS, MACHINE_PATHS, REGISTRY_HOSTS, examples_run, no_machine_and_no_registry_is_named,
        nothing_is_left_over, tests_are_not_switched_off,
    };

    #[test]
    fn a_test_that_is_switched_off_is_found() {
        let cases: &[(&str, &[usize])] = &[
            ("#[test]\n#[ignore]\nfn f() {}", &[3]),
            ("#[test]\n#[ignore = \"slow\"]\nfn f() {}", &[3]),
            ("mod tests {\n    #[should_panic(expected = \"x\")]\n    #[test]\n    fn f() {}\n}", &[3]),
            ("// #[ignore] and should_panic in a comment\nconst S: &str = \"#[ignore]\";", &[]),
        ];
        for (code, lines) in cases {
            check(tests_are_not_switched_off, "src/model/id.rs", code, lines);
            check(tests_are_not_switched_off, "examples/blog/auth/src/main.rs", code, lines);
        }
    }

    #[test]
    fn an_example_that_does_not_run_is_found() {
        let cases: &[(&str, &[usize])] = &[
            ("/// ```ignore\n/// f();\n/// ```\nfn f() {}", &[2]),
            ("//! ```rust,ignore\n//! ```", &[2]),
            ("/// ```no_run\n/// ```\nfn f() {}", &[]),
            ("const S: &str = \"```ignore\";", &[]),
        ];
        for (code, lines) in cases {
            check(examples_run, "src/model/id.rs", code, lines);
        }
        let sample = Sample::good();
        sample.write("README.md", "# R\n\n```rust, ignore\n```\n");
        sample.assert_lines(examples_run, "README.md", &[3]);
    }

    #[test]
    fn leftovers_are_found() {
        for word in LEFTOVERS {
            check(nothing_is_left_over, "src/model/id.rs", &format!("fn f() {{}}\n// {word}: later"), &[3]);
            check(
                nothing_is_left_over,
                "docs/page.md",
                &format!("{word}S and MY_{word} are other words"),
                &[],
            );
        }
        let sample = Sample::good();
        sample.write(".github/workflows/ci.yml", &format!("on: push\n# {} cache\n", LEFTOVERS[0]));
        sample.assert_lines(nothing_is_left_over, ".github/workflows/ci.yml", &[2]);
    }

    #[test]
    fn machines_and_registries_are_found() {
        let wrong = MACHINE_PATHS.iter().map(|path| format!("see `{path}x`"));
        let wrong = wrong.chain(REGISTRY_HOSTS.iter().map(|host| format!("from https://{host}/x")));
        for line in wrong {
            check(no_machine_and_no_registry_is_named, "src/model/id.rs", &format!("\n// {line}"), &[3]);
            check(no_machine_and_no_registry_is_named, "docs/page.md", &format!("\n{line}"), &[3]);
        }
        for path in MACHINE_PATHS {
            let fine = format!("// src{path}x and http://a.example{path}x");
            check(no_machine_and_no_registry_is_named, "src/model/id.rs", &fine, &[]);
        }
    }
}
