//! Scaffolding with a real cargo.

use super::*;
use crate::tool::build::build_scenarios;
use crate::tool::discover::discover;
use crate::tool::fixture::{Fixture, block_on, offline};

fn stand_in(fixture: &Fixture) -> LibrarySource {
    LibrarySource::Path(fixture.path("library"))
}

fn made(
    fixture: &Fixture,
    folder: &str,
    name: &str,
    library: &LibrarySource,
) -> Result<Created, ScaffoldError> {
    block_on(new(&fixture.cargo_in(folder), &offline(), name, library))
}

fn scenarios(fixture: &Fixture) -> Vec<String> {
    let workspace = block_on(discover(&fixture.cargo_in("root"), &offline())).unwrap();
    workspace.scenarios.into_iter().map(|it| format!("{}::{}", it.package, it.name)).collect()
}

#[test]
fn a_scenario_is_made_in_the_package_one_stands_in() {
    let fixture = Fixture::copy("shapes");
    let created = made(&fixture, "root/plain/src", "check-out", &stand_in(&fixture)).unwrap();
    assert_eq!(created.package, "plain");
    assert_eq!(created.scenario, fixture.path("root/plain/loadtests/check-out.rs"));
    assert!(!created.package_is_new);
    let manifest = fixture.read("root/plain/Cargo.toml");
    assert!(
        manifest.contains("cargo-loadtest = {") && manifest.contains("default-features = false"),
        "{manifest}"
    );
    assert!(scenarios(&fixture).contains(&"plain::check-out".to_owned()));
}

#[test]
fn the_name_under_which_the_library_is_known_is_used() {
    let fixture = Fixture::copy("shapes");
    let uses = |path: &str| fixture.read(path).lines().nth(2).unwrap().to_owned();
    // It depends on the library already, through the workspace's entry.
    let before = fixture.read("root/shop/Cargo.toml");
    made(&fixture, "root/shop", "one", &LibrarySource::Usual).unwrap();
    assert_eq!(uses("root/shop/loadtests/one.rs"), "use lt::prelude::*;");
    let entry = "[[bench]]\nname = \"one\"\npath = \"loadtests/one.rs\"\nharness = false\n\n";
    assert_eq!(fixture.read("root/shop/Cargo.toml").replacen(entry, "", 1), before);
    // A source that is given for it all the same is not taken, which is told.
    let before = fixture.read("root/shop/Cargo.toml");
    let created = made(&fixture, "root/shop", "zero", &stand_in(&fixture)).unwrap();
    let [warning] = &created.warnings[..] else { panic!("{:?}", created.warnings) };
    assert!(warning.message.starts_with("shop depends on cargo-loadtest already"), "{warning:?}");
    let entry = entry.replace("one", "zero");
    assert_eq!(fixture.read("root/shop/Cargo.toml").replacen(&entry, "", 1), before);

    // The workspace has an entry for it.
    let created = made(&fixture, "root/plain", "two", &LibrarySource::Usual).unwrap();
    assert_eq!(uses("root/plain/loadtests/two.rs"), "use lt::prelude::*;");
    let manifest = fixture.read("root/plain/Cargo.toml");
    assert!(
        manifest.contains("lt.workspace = true") || manifest.contains("lt = { workspace = true"),
        "{manifest}"
    );
    assert_eq!(created.warnings.len(), 1, "{:?}", created.warnings);

    // The package's own library has the name.
    let plain = "[package]\nname = \"plain\"\nedition = \"2024\"\n[lib]\nname = \"loadtest\"\n";
    fixture.write("root/plain/Cargo.toml", plain);
    made(&fixture, "root/plain", "three", &stand_in(&fixture)).unwrap();
    assert_eq!(uses("root/plain/loadtests/three.rs"), "use cargo_loadtest::prelude::*;");
    let manifest = fixture.read("root/plain/Cargo.toml");
    for part in ["\ncargo_loadtest = {", "package = \"cargo-loadtest\""] {
        assert!(manifest.contains(part), "{manifest}");
    }
    assert!(scenarios(&fixture).contains(&"plain::three".to_owned()));
}

#[test]
fn a_virtual_root_gets_a_package_for_scenarios_and_keeps_it() {
    let fixture = Fixture::copy("shapes");
    let created = made(&fixture, "root", "first", &stand_in(&fixture)).unwrap();
    assert_eq!((created.package.as_str(), created.package_is_new), ("loadtests", true));
    assert!(fixture.read("root/Cargo.toml").contains("\"../outside\", \"loadtests\"]"));
    let created = made(&fixture, "root", "second", &stand_in(&fixture)).unwrap();
    assert_eq!((created.package.as_str(), created.package_is_new), ("loadtests", false));
    let found = scenarios(&fixture);
    for name in ["loadtests::first", "loadtests::second"] {
        assert!(found.contains(&name.to_owned()), "{found:?}");
    }
}

#[test]
fn what_exists_or_has_no_proper_name_is_refused() {
    let fixture = Fixture::copy("shapes");
    let library = stand_in(&fixture);
    for name in ["", "a b", "../x", "naïve", "a.rs"] {
        assert!(matches!(made(&fixture, "root/blog", name, &library), Err(ScaffoldError::Name(_))), "{name}");
    }
    let before = fixture.read("root/blog/Cargo.toml");
    // One is a target; one is a file and no target; one is a target whose file is elsewhere.
    for name in ["auth", "helper", "micro"] {
        let error = made(&fixture, "root/blog", name, &library).unwrap_err();
        assert!(matches!(error, ScaffoldError::Exists(_)), "{name}: {error}");
    }
    assert_eq!(fixture.read("root/blog/Cargo.toml"), before);
    let two = CargoFlags { packages: vec!["blog".into(), "shop".into()], ..offline() };
    let error = block_on(new(&fixture.cargo_in("root"), &two, "x", &library)).unwrap_err();
    assert!(matches!(error, ScaffoldError::SeveralPackages));
}

#[test]
fn when_the_dependency_cannot_be_added_nothing_is_changed() {
    let fixture = Fixture::copy("shapes");
    let before = ["root/Cargo.toml", "root/plain/Cargo.toml"].map(|path| fixture.read(path));
    let nowhere = LibrarySource::Path(fixture.path("nowhere"));
    for folder in ["root", "root/plain"] {
        assert!(matches!(made(&fixture, folder, "x", &nowhere), Err(ScaffoldError::Add)));
    }
    assert_eq!(["root/Cargo.toml", "root/plain/Cargo.toml"].map(|path| fixture.read(path)), before);
    assert!(!fixture.path("root/plain/loadtests/x.rs").exists());
    assert!(!fixture.path("root/loadtests/Cargo.toml").exists());
    assert!(made(&fixture, "root", "x", &stand_in(&fixture)).is_ok());
}

#[test]
fn a_new_scenario_compiles_and_runs_against_this_library() {
    let fixture = Fixture::copy("empty");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The versions that this checkout is tested with.
    fixture.write("Cargo.lock", &std::fs::read_to_string(checkout.join("Cargo.lock")).unwrap());
    made(&fixture, "", "check-out", &LibrarySource::Path(checkout.to_owned())).unwrap();
    let cargo = fixture.cargo_in("");
    let workspace = block_on(discover(&cargo, &offline())).unwrap();
    // Kept from run to run: the library's dependencies are many.
    let flags = CargoFlags { target_dir: Some(checkout.join("target/fixtures")), ..offline() };
    let build = block_on(build_scenarios(&cargo, &flags, &workspace.scenarios)).unwrap();
    let [scenario] = &build.built[..] else { panic!("{:?}", build.failed) };
    // Bare, as `cargo bench` starts it, it says one line and starts no load.
    let output =
        block_on(async { sys::process::command(&scenario.executable).arg("--bench").output().await })
            .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
}
