//! `cargo xtask tidy`: the architecture rules of this repository, checked on its source.
//!
//! Every rule is a function from the [`Tree`] to its findings and has one line in [`RULES`]. Rust is parsed, not
//! searched: what a module names is found through nested imports, renames, re-exports, expressions and macros.

mod dependencies;
mod facade;
mod imports;
mod map;
mod names;
mod shape;
mod text;
mod tree;

#[cfg(test)]
mod sample;

use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};

use tree::Tree;

/// One place in the repository that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the repository's root, with `/`.
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

#[derive(Debug)]
struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

/// Every rule there is, in the order of ARCHITECTURE.md: imports, shape of files, façade, map, text, dependencies.
const RULES: &[Rule] = &[
    Rule { name: "parses", check: shape::every_file_parses },
    Rule { name: "layers", check: imports::layers_are_kept },
    Rule { name: "pure", check: imports::pure_modules_do_no_io },
    Rule { name: "engine", check: imports::engine_knows_no_telemetry_and_no_terminal },
    Rule { name: "sys", check: imports::the_system_is_reached_through_sys },
    Rule { name: "length", check: shape::files_are_short },
    Rule { name: "head", check: shape::modules_say_what_they_own },
    Rule { name: "placement", check: shape::modules_lie_where_their_path_says },
    Rule { name: "facade", check: facade::public_names_are_in_one_block },
    Rule { name: "map", check: map::folders_are_mapped },
    Rule { name: "invariants", check: map::invariants_are_written_down },
    Rule { name: "tests", check: text::tests_are_not_switched_off },
    Rule { name: "fences", check: text::examples_run },
    Rule { name: "leftovers", check: text::nothing_is_left_over },
    Rule { name: "places", check: text::no_machine_and_no_registry_is_named },
    Rule { name: "forbidden", check: dependencies::the_runtime_needs_no_foreign_toolchain },
    Rule { name: "budget", check: dependencies::the_runtime_stays_light },
    Rule { name: "one-otel", check: dependencies::there_is_one_opentelemetry },
];

fn check(tree: &Tree) -> Vec<(&'static str, Finding)> {
    let mut findings: Vec<_> = RULES
        .iter()
        .flat_map(|rule| (rule.check)(tree).into_iter().map(|finding| (rule.name, finding)))
        .collect();
    findings.sort_by(|(_, a), (_, b)| a.cmp(b));
    findings
}

/// Checks the repository at `root`, prints the findings, and fails if there is one.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let findings = check(&tree);
    for (rule, finding) in &findings {
        println!("{finding} [{rule}]");
    }
    ensure!(findings.is_empty(), "tidy: {} findings", findings.len());
    println!("tidy: {} rules hold in {} files", RULES.len(), tree.files().len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::sample::Sample;
    use super::{RULES, check, run};

    #[test]
    fn this_repository_is_tidy() {
        if let Err(error) = run(crate::root()) {
            panic!("{error}; each is printed above");
        }
    }

    #[test]
    fn a_good_tree_has_no_finding() {
        assert_eq!(check(&Sample::good().tree()), []);
    }

    #[test]
    fn findings_are_sorted_and_carry_their_rule() {
        let sample = Sample::good();
        sample.write("src/model/id.rs", "//! Ids.\nuse std::fs;\n");
        sample.write("src/runtime/host.rs", "//! Host.\nuse crate::tool::cli;\n");
        let found: Vec<_> =
            check(&sample.tree()).into_iter().map(|(rule, f)| (rule, f.path, f.line)).collect();
        assert_eq!(
            found,
            [("pure", "src/model/id.rs".into(), 2), ("layers", "src/runtime/host.rs".into(), 2)]
        );
        assert!(run(sample.root()).is_err());
    }

    #[test]
    fn names_of_rules_are_unique() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
