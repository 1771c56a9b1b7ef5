//! Builds with a real cargo.

use std::collections::BTreeMap;

use super::*;
use crate::sys;
use crate::tool::cargo::CargoFlags;
use crate::tool::config::{self, ConfigFile, Flags};
use crate::tool::discover::{Workspace, discover};
use crate::tool::fixture::{Fixture, block_on, offline};

fn workspace(fixture: &Fixture) -> Workspace {
    block_on(discover(&fixture.cargo_in("root"), &offline())).unwrap()
}

/// Configured target and build directories.
fn elsewhere() -> CargoFlags {
    let config = ["build.target-dir='my tärget'", "build.build-dir='my build'"].map(str::to_owned).to_vec();
    CargoFlags { config, ..offline() }
}

fn output(executable: &std::path::Path) -> String {
    let output = block_on(async { sys::process::command(executable).output().await }).unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn scenarios_are_built_each_as_its_own_and_a_broken_one_hides_none() {
    let fixture = Fixture::copy("shapes");
    fixture
        .write("root/.cargo/config.toml", "[build]\ntarget-dir = \"my tärget\"\nbuild-dir = \"my build\"\n");
    let workspace = workspace(&fixture);
    let build =
        block_on(build_scenarios(&fixture.cargo_in("root"), &offline(), &workspace.scenarios)).unwrap();
    let failed: Vec<_> = build.failed.iter().map(|it| format!("{}::{}", it.package, it.name)).collect();
    assert_eq!(failed, ["broken::broken"]);
    let said: Vec<_> = build.built.iter().map(|it| output(&it.executable)).collect();
    assert_eq!(
        said,
        [
            "blog::auth caught=true optimized=true",
            "broken::sound",
            "naive-tests::demo",
            "naive-tests::run-it",
            "outside::far",
            "shop::auth",
            "shop::micro",
        ]
    );
}

#[test]
fn nothing_to_build_calls_no_cargo() {
    let nowhere = crate::tool::cargo::Cargo::at("/nonexistent".into());
    let build = block_on(build_scenarios(&nowhere, &offline(), &[])).unwrap();
    assert!(build.built.is_empty() && build.failed.is_empty());
}

fn services(text: &str) -> Vec<config::Service> {
    let file = ConfigFile { path: "loadtest.toml".into(), text: text.to_owned() };
    config::resolve(&[file], &BTreeMap::new(), &Flags::default()).unwrap().services
}

fn built(
    fixture: &Fixture,
    flags: &CargoFlags,
    text: &str,
) -> Result<Vec<services::BuiltService>, BuildError> {
    let workspace = workspace(fixture);
    block_on(build_services(
        &fixture.cargo_in("root"),
        flags,
        &workspace,
        &services(text),
        &fixture.path("run folder"),
    ))
}

#[test]
fn services_are_built_with_their_features_and_started_from_copies() {
    let fixture = Fixture::copy("shapes");
    let text = "[[service]]\nname = 'front'\nbin = 'blog'\nfeatures = ['fast']\n\
                [[service]]\nname = 'db'\ncommand = ['db']\n\
                [[service]]\nname = 'back'\nbin = 'shop'\npackage = 'shop'\n";
    let built =
        built(&fixture, &CargoFlags { cargo_profile: Some("dev".into()), ..elsewhere() }, text).unwrap();
    let said: Vec<_> = built.iter().map(|it| (it.service.as_str(), output(&it.executable))).collect();
    assert_eq!(said, [("front", "blog fast=true".to_owned()), ("back", "shop".to_owned())]);
    for service in &built {
        assert_eq!(service.executable.parent(), Some(&*fixture.path("run folder/bin")));
    }
}

#[test]
fn a_service_that_cannot_be_built_is_named() {
    let fixture = Fixture::copy("shapes");
    for (service, configuration, message) in [
        (
            "bin = 'blgo'",
            true,
            "service `x`: no package of this workspace has a binary `blgo`; did you mean `blog`?",
        ),
        ("bin = 'blog'\npackage = 'nope'", true, "service `x`: no package `nope` in this workspace"),
        ("bin = 'broken'", false, "could not build the binary of: x"),
    ] {
        let error = built(&fixture, &offline(), &format!("[[service]]\nname = 'x'\n{service}")).unwrap_err();
        assert_eq!((error.is_configuration(), error.to_string().as_str()), (configuration, message));
    }
    let text = fixture.read("root/shop/Cargo.toml");
    fixture.write("root/shop/Cargo.toml", &format!("{text}\n[[bin]]\nname = 'blog'\npath = 'src/main.rs'\n"));
    let error = built(&fixture, &offline(), "[[service]]\nname = 'x'\nbin = 'blog'").unwrap_err();
    assert_eq!(
        error.to_string(),
        "service `x`: `blog` is a binary of several packages (blog, shop); say which with `package`"
    );
}
