//! Rules about what a module may name: the layers, the pure modules, the engine, and the way to the system.

use super::Finding;
use super::names::{Kind, Mention};
use super::tree::Tree;

/// Modules on the left name nothing in the modules on the right, not even in their tests.
const LAYERS: &[(&str, &[&str])] = &[
    ("runtime", &["tool"]),
    ("tool", &["runtime"]),
    ("model", &["protocol", "runtime", "sys", "tool"]),
    ("protocol", &["runtime", "sys", "tool"]),
    ("sys", &["protocol", "runtime", "tool"]),
    // A report is made from results; it never calls back into a run.
    (
        "tool::report",
        &["tool::build", "tool::cli", "tool::discover", "tool::drive", "tool::receive", "tool::services"],
    ),
];

/// Modules that do no IO and read no clock.
const PURE: &[&str] = &["model", "protocol", "tool::analyse", "runtime::engine::schedule"];

/// What a pure module does not name. Plain values such as `std::net::IpAddr` are exempt: see [`VALUES`].
const IMPURE: &[&str] = &[
    "crate::sys",
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "axum",
    "hyper",
    "indicatif",
    "reqwest",
    "rustix",
    "tempfile",
    "tokio",
    "tonic",
];

/// In modules that are impure, but only values: nothing is read, sent or written by them.
const VALUES: &[&str] = &[
    "std::net::AddrParseError",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
    "std::net::SocketAddrV4",
    "std::net::SocketAddrV6",
    "std::process::ExitCode",
];

const PRINTING: &[&str] = &["dbg", "eprint", "eprintln", "print", "println"];

/// What only `sys` names: clippy's `disallowed_methods` judges calls, this judges names, so that a function handed on
/// as a value or brought in by a macro does not slip through.
const SYSTEM: &[&str] = &[
    "std::env::args",
    "std::env::args_os",
    "std::env::current_dir",
    "std::env::set_current_dir",
    "std::env::temp_dir",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::env::vars_os",
    "std::fs::write",
    "std::process::Command::new",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "tokio::fs",
    "tokio::process::Command::new",
    "tokio::signal",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
];

fn at(mention: &Mention, message: impl Into<String>) -> Finding {
    Finding::new(&mention.file, mention.line, message)
}

pub(super) fn layers_are_kept(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for mention in tree.mentions() {
        if mention.kind == Kind::Glob && mention.path == ["crate"] && !mention.module.is_empty() {
            findings
                .push(at(mention, "imports the crate's root by a glob, which hides what is meant; name it"));
        }
        for (module, others) in LAYERS.iter().filter(|(module, _)| mention.stands_in(module)) {
            for other in others.iter().filter(|other| mention.reaches(&format!("crate::{other}"))) {
                findings.push(at(
                    mention,
                    format!("`{module}` names `{}`; it must not know `{other}`", mention.spelled()),
                ));
            }
        }
    }
    unique(findings)
}

pub(super) fn pure_modules_do_no_io(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for mention in tree.mentions().iter().filter(|mention| !mention.in_test) {
        let Some(module) = PURE.iter().find(|module| mention.stands_in(module)) else { continue };
        let impure = IMPURE.iter().any(|path| mention.reaches(path) || is_glob_above(mention, path));
        let prints = mention.kind == Kind::Macro
            && mention.path.last().is_some_and(|name| PRINTING.contains(&&**name));
        // A clock by any other name: `jiff::Timestamp::now`, `chrono::Utc::now`, …
        let reads_clock = mention.path.len() > 1 && mention.path.last().is_some_and(|name| name == "now");
        let value = VALUES.iter().any(|path| mention.reaches(path));
        if (impure && !value) || prints || reads_clock {
            let name = mention.spelled();
            findings.push(at(
                mention,
                format!("`{module}` is pure, but names `{name}`; hand the value in instead"),
            ));
        }
    }
    unique(findings)
}

/// `use std::time::*` brings in `std::time::Instant`.
fn is_glob_above(mention: &Mention, path: &str) -> bool {
    mention.kind == Kind::Glob
        && path.strip_prefix(&mention.spelled()).is_some_and(|rest| rest.starts_with("::"))
}

pub(super) fn engine_knows_no_telemetry_and_no_terminal(tree: &Tree) -> Vec<Finding> {
    let foreign = |mention: &&Mention| {
        let first = mention.path.first().map_or("", String::as_str);
        first.starts_with("opentelemetry")
            || matches!(first, "tracing_opentelemetry" | "indicatif")
            || mention.path.iter().any(|name| name == "IsTerminal" || name == "is_terminal")
    };
    let engine = tree.mentions().iter().filter(|mention| mention.stands_in("runtime::engine"));
    unique(
        engine
            .filter(foreign)
            .map(|mention| {
                let name = mention.spelled();
                at(
                    mention,
                    format!("the engine knows neither OpenTelemetry nor terminals, but names `{name}`"),
                )
            })
            .collect(),
    )
}

pub(super) fn the_system_is_reached_through_sys(tree: &Tree) -> Vec<Finding> {
    let outside = tree.mentions().iter().filter(|mention| !mention.stands_in("sys") && !mention.in_test);
    let mut findings: Vec<_> = outside
        .filter(|mention| SYSTEM.iter().any(|path| mention.reaches(path)))
        .map(|mention| at(mention, format!("`{}` is reached through `crate::sys` only", mention.spelled())))
        .collect();
    // An exemption from the lint anywhere else would be a second door.
    for file in tree.files().iter().filter(|file| file.is_rust()) {
        let second_door = file.path.starts_with("src/") && !file.path.starts_with("src/sys");
        let is_tests = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
        // Tests stand at the end of a file.
        let code = file.lines().take_while(|(_, text)| !text.contains("#[cfg(test)]\nmod"));
        for (line, text) in code.filter(|_| second_door && !is_tests) {
            let code = text.split("//").next().unwrap_or_default();
            if code.contains("clippy::disallowed_methods") {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    "only `sys` is exempt from `clippy::disallowed_methods`",
                ));
            }
        }
    }
    unique(findings)
}

/// An import and its path in a macro or an expression can be one and the same mention.
fn unique(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, check};
    use super::super::tree::Tree;
    use super::{
        LAYERS, PURE, SYSTEM, engine_knows_no_telemetry_and_no_terminal as engine, layers_are_kept as layers,
        pure_modules_do_no_io as pure, the_system_is_reached_through_sys as sys,
    };

    #[test]
    fn halves_that_import_each_other_are_found() {
        let cases: &[(&str, &str, &[usize])] = &[
            ("src/runtime/host.rs", "use crate::tool::drive;", &[2]),
            ("src/tool/drive.rs", "use crate::runtime::host::{self, Host};", &[2, 2]),
            ("src/tool/drive.rs", "use crate::{\n    model,\n    runtime::{host, engine},\n};", &[4, 4]),
            ("src/runtime/host.rs", "fn f() { super::super::tool::drive::go(); }", &[2]),
            ("src/runtime/mod.rs", "fn f() -> super::tool::T { todo!() }", &[2]),
            ("src/runtime/host.rs", "use crate as root;\nfn f() { root::tool::go(); }", &[3]),
            ("src/runtime/host.rs", "use super::super as up;\nfn f(x: &dyn up::tool::T) {}", &[3]),
            ("src/runtime/host.rs", "use crate::*;", &[2]),
            ("src/runtime/host.rs", "fn f() { vec![\n        1, crate::tool::N]; }", &[3]),
            ("src/runtime/host.rs", "macro_rules! m { () => { $crate::tool::go!() } }", &[2]),
            ("src/runtime/host.rs", "#[serde(with = \"crate::tool::hex\")]\nstruct S;", &[2]),
            ("src/runtime/host.rs", "mod inner {\n    use super::super::super::tool::x;\n}", &[3]),
            ("src/runtime/host.rs", "#[cfg(test)]\nmod tests {\n    use crate::tool::x;\n}", &[4]),
            // `lib.rs` re-exports it; the crate's root is no way round.
            ("src/tool/drive.rs", "use crate::Vu;", &[2]),
            ("src/tool/report/text.rs", "use crate::tool::drive::Run;", &[2]),
            ("src/tool/report/text.rs", "fn f(r: super::super::receive::Store) {}", &[2]),
            ("src/model/id.rs", "use crate::protocol::Frame;", &[2]),
            ("src/protocol/frame.rs", "use crate::sys::env;", &[2]),
            ("src/sys/clock.rs", "use crate::runtime::host;", &[2]),
        ];
        for (path, code, lines) in cases {
            check(layers, path, code, lines);
        }
    }

    #[test]
    fn what_the_layers_allow_is_not_found() {
        let cases = [
            ("src/runtime/host.rs", "use crate::{model::Id, protocol::Frame, sys::clock};"),
            (
                "src/runtime/host.rs",
                "use super::engine;\nmod tool { pub(super) fn go() {} }\nfn f() { tool::go(); }",
            ),
            ("src/runtime/host.rs", "/// See [`crate::tool::drive`].\nconst S: &str = \"crate::tool x\";"),
            ("src/tool/drive.rs", "use tokio::runtime::Handle;"),
            ("src/tool/report/text.rs", "use crate::tool::analyse::Share;"),
            ("src/lib.rs", "mod runtime;\nmod tool;\npub use runtime::host::Host;"),
        ];
        for (path, code) in cases {
            check(layers, path, code, &[]);
        }
    }

    #[test]
    fn io_and_clocks_in_a_pure_module_are_found() {
        let cases: &[(&str, &str, &[usize])] = &[
            ("src/model/id.rs", "use std::fs;\nfn f() { fs::read(\"x\"); }", &[2, 3]),
            ("src/model/id.rs", "use std::{fmt, time::{Duration, Instant}};", &[2]),
            ("src/model/id.rs", "use std as s;\nfn f() { s::env::var(\"A\"); }", &[3]),
            ("src/model/id.rs", "use std::time::*;", &[2]),
            ("src/model/id.rs", "fn f() { println!(\"x\"); }", &[2]),
            ("src/model/id.rs", "fn f() { let t = jiff::Timestamp::now(); }", &[2]),
            ("src/protocol/frame.rs", "use tokio::io::AsyncRead;", &[2]),
            ("src/protocol/frame.rs", "use std::net::TcpStream;", &[2]),
            ("src/tool/analyse/share.rs", "use crate::sys::clock;", &[2]),
            ("src/runtime/engine/schedule/mod.rs", "fn f() { std::process::id(); }", &[2]),
            ("src/runtime/engine/schedule/mod.rs", "fn f() { std::thread::sleep(D); }", &[2]),
        ];
        for (path, code, lines) in cases {
            check(pure, path, code, lines);
        }
    }

    #[test]
    fn values_tests_and_other_modules_may_name_what_a_pure_module_may_not_do() {
        let cases = [
            ("src/model/id.rs", "use std::net::{IpAddr, SocketAddr};\nuse std::process::ExitCode;"),
            ("src/model/id.rs", "use std::io::{Read, Write};\nuse std::time::Duration;"),
            ("src/model/id.rs", "#[cfg(test)]\nmod tests {\n    fn f() { std::fs::read(\"x\"); }\n}"),
            ("src/model/id.rs", "#[test]\nfn f() { println!(\"x\"); }"),
            ("src/runtime/engine/mod.rs", "use std::time::Instant;"),
        ];
        for (path, code) in cases {
            check(pure, path, code, &[]);
        }
        let sample = Sample::good();
        sample.write("src/model/mod.rs", "//! Values.\n#[cfg(test)]\nmod cases;\n");
        sample.write("src/model/cases.rs", "//! Test cases.\nuse std::fs;\n");
        assert_eq!(pure(&sample.tree()), []);
    }

    #[test]
    fn telemetry_and_terminals_in_the_engine_are_found() {
        let cases: &[(&str, &str, &[usize])] = &[
            ("src/runtime/engine/mod.rs", "use opentelemetry_sdk::trace::SpanData;", &[2]),
            ("src/runtime/engine/worker.rs", "fn f(c: &opentelemetry::Context) {}", &[2]),
            ("src/runtime/engine/worker.rs", "use indicatif::ProgressBar;", &[2]),
            ("src/runtime/engine/worker.rs", "use std::io::{self, IsTerminal as _};", &[2]),
            ("src/runtime/engine/worker.rs", "use crate::runtime::host::Span;", &[2]),
            ("src/runtime/telemetry/mod.rs", "use opentelemetry::Context;", &[]),
            ("src/runtime/engine/worker.rs", "use tokio::task::LocalSet;", &[]),
        ];
        for (path, code, lines) in cases {
            let sample = Sample::good();
            sample.write("src/runtime/host.rs", "//! Host.\npub(crate) use opentelemetry::trace::Span;\n");
            sample.write(path, &format!("//! Owns.\n{code}\n"));
            sample.assert_lines(engine, path, lines);
        }
    }

    /// A rule about a module that was renamed would hold for ever.
    #[test]
    fn every_module_that_a_rule_names_exists() {
        let tree = Tree::read(crate::root()).unwrap();
        let modules: Vec<_> =
            tree.files().iter().filter_map(|file| Some(file.module()?.join("::"))).collect();
        let layers = LAYERS.iter().flat_map(|(module, others)| others.iter().chain([module]));
        let missing: Vec<_> =
            layers.chain(PURE).filter(|name| !modules.iter().any(|module| module == **name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn what_clippy_disallows_is_disallowed_here_too() {
        let text = std::fs::read_to_string(crate::root().join("clippy.toml")).unwrap();
        let settings: toml::Table = toml::from_str(&text).unwrap();
        for method in settings["disallowed-methods"].as_array().unwrap() {
            let path = method["path"].as_str().unwrap();
            assert!(SYSTEM.contains(&path), "{path}");
        }
    }

    #[test]
    fn a_way_to_the_system_that_is_not_sys_is_found() {
        let cases: &[(&str, &str, &[usize])] = &[
            ("src/tool/drive.rs", "fn f() { let now = std::time::Instant::now; }", &[2]),
            ("src/tool/drive.rs", "use std::process::Command;\nfn f() { Command::new(\"a\"); }", &[3]),
            ("src/tool/drive.rs", "fn f(command: &mut std::process::Command) {}", &[]),
            ("src/tool/drive.rs", "use std::env;\nfn f() { env::var(\"A\"); }", &[3]),
            ("src/runtime/host.rs", "use tokio::signal::ctrl_c;", &[2]),
            ("src/runtime/host.rs", "#[expect(clippy::disallowed_methods, reason = \"r\")]\nfn f() {}", &[2]),
            ("src/sys/clock.rs", "fn f() { std::time::Instant::now(); }", &[]),
            ("src/sys/clock.rs", "#![expect(clippy::disallowed_methods, reason = \"r\")]", &[]),
            ("src/tool/drive.rs", "use std::process::ExitStatus;\nfn f() { env!(\"A\"); }", &[]),
        ];
        for (path, code, lines) in cases {
            check(sys, path, code, lines);
        }
    }
}
