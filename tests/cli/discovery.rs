//! Workspaces in the shapes that they come in, through the program.

use std::path::Path;

use crate::server::Server;
use crate::tool::tool;
use crate::workspace;

#[test]
fn all_scenarios_of_a_virtual_workspace_are_listed_beside_packages_that_cannot_be_used() {
    let ended = tool(workspace::members(), "list").end().exits(0);
    let ended = ended.prints(&["blog::auth", "naive-shop::auth", "outside::far"]);
    assert!(!ended.stdout.contains("broken::"), "{ended}");
    ended.says(&[
        "cannot find value `no_such_function`",
        "warning: left-out: could not build broken::broken",
        "warning: left-out: forgotten::forgotten ended",
    ]);
}

#[test]
fn one_name_in_several_packages_is_several_scenarios() {
    let server = Server::start();
    let ended = tool(workspace::members(), "run -p blog -p naive-shop auth --no-reference --base-url")
        .args([server.url()])
        .end()
        .exits(0);
    let summary = ended.summary();
    let packages: Vec<_> =
        summary["scenarios"].as_array().unwrap().iter().map(|scenario| &scenario["package"]).collect();
    assert_eq!(packages, ["blog", "naive-shop"]);
    let targets = server.seen().targets;
    assert_eq!((targets["/blog"], targets["/naive-shop"]), (2, 2));
}

#[test]
fn a_package_that_does_not_compile_ends_only_a_run_that_asks_for_it() {
    let server = Server::start();
    let run = |filter: &str| {
        tool(workspace::members(), &format!("run {filter} --no-reference --base-url"))
            .args([server.url()])
            .end()
    };
    run("broken").exits(101).says(&["error: could not build broken::broken"]);
    run("--workspace --exclude forgotten").exits(101).says(&["could not build broken::broken"]);
    assert_eq!(server.seen().requests, 0);
    run("outside::far").exits(0).says(&["warning: left-out: could not build broken::broken"]);
    assert_eq!(server.seen().targets["/outside"], 2);
}

#[test]
fn a_forgotten_harness_is_told_with_what_to_do() {
    for arguments in ["run -p forgotten", "run forgotten"] {
        tool(workspace::members(), arguments).end().exits(102).says(&[
            "forgotten::forgotten ended",
            "without a word",
            "help: add `harness = false` to its [[bench]] entry in Cargo.toml",
        ]);
    }
}

#[test]
fn in_a_members_folder_only_that_member_is_searched() {
    for (folder, name) in [("naïve shop", "naive-shop::auth"), ("../outside/loadtests", "outside::far")] {
        let ended = tool(&workspace::members().join(folder), "list").end().exits(0).prints(&[name]);
        assert_eq!(ended.stdout.lines().count(), 1, "{ended}");
    }
}

#[test]
fn no_scenario_is_an_error_unless_it_is_said_to_be_none() {
    let members = workspace::members();
    for (arguments, code) in [
        ("run -p plain", 4),
        ("list -p plain", 4),
        ("run -p plain --no-tests=pass", 0),
        ("run -p plain --no-tests=warn", 0),
        ("run -p blog no-such-scenario", 4),
        ("run -p blog no-such-scenario --no-tests=pass", 0),
    ] {
        tool(members, arguments).end().exits(code);
    }
    tool(members, "run -p plain").end().says(&[
        "no scenario was found",
        "loadtests/",
        "cargo loadtest new NAME",
    ]);
    tool(members, "run -p plain --no-tests=warn").end().says(&["warning: ", "no scenario was found"]);
    tool(members, "run -p blog nothing")
        .end()
        .says(&["no scenario matches `nothing`", "cargo loadtest list"]);
}

#[test]
fn configured_target_and_build_folders_are_used() {
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("my tärget");
    let server = Server::start();
    let ended = tool(workspace::members(), "run -p blog --no-reference --base-url")
        .args([server.url()])
        .env("CARGO_TARGET_DIR", &target)
        // Where everything that scenarios depend on is built already.
        .env("CARGO_BUILD_BUILD_DIR", workspace::build_folder())
        .end()
        .exits(0);
    assert!(ended.run_folder().starts_with(&target), "{ended}");
    assert_eq!(server.seen().requests, 2);
    let by_flag = elsewhere.path().join("by flag");
    let ended = tool(workspace::members(), "run -p blog --no-reference --target-dir")
        .args([by_flag.as_os_str()])
        .args(["--base-url", &server.url()])
        .env("CARGO_BUILD_BUILD_DIR", workspace::build_folder())
        .end()
        .exits(0);
    assert!(ended.run_folder().starts_with(&by_flag), "{ended}");
}

#[test]
fn a_workspace_is_found_by_its_manifest_from_anywhere() {
    let manifest = workspace::members().join("naïve shop/Cargo.toml");
    tool(Path::new("/"), "list --manifest-path")
        .args([manifest])
        .end()
        .exits(0)
        .prints(&["naive-shop::auth"]);
}
