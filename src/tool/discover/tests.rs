//! Discovery with a real cargo, in the shapes that workspaces come in.

use super::*;
use crate::tool::fixture::{Fixture, block_on, offline};

fn names(workspace: &Workspace) -> Vec<String> {
    workspace.scenarios.iter().map(|it| format!("{}::{} {}", it.package, it.name, it.kind.as_str())).collect()
}

fn found(fixture: &Fixture, folder: &str, flags: &CargoFlags) -> Result<Workspace, DiscoverError> {
    block_on(discover(&fixture.cargo_in(folder), flags))
}

const BLOG: &str = "blog::auth bench";
const BROKEN: [&str; 2] = ["broken::broken bench", "broken::sound bench"];
const NAIVE: [&str; 2] = ["naive-tests::demo example", "naive-tests::run-it bin"];
const FAR: &str = "outside::far bench";
const SHOP: [&str; 2] = ["shop::auth bench", "shop::micro bench"];

#[test]
fn scenarios_are_found_in_the_packages_that_folder_and_flags_select() {
    let fixture = Fixture::copy("shapes");
    let packages = |list: &[&str]| CargoFlags {
        packages: list.iter().map(|it| (*it).to_owned()).collect(),
        ..offline()
    };
    let all_but = |list: &[&str]| CargoFlags {
        workspace: true,
        exclude: list.iter().map(|it| (*it).to_owned()).collect(),
        ..offline()
    };
    let at = |path: &str| CargoFlags { manifest_path: Some(path.into()), ..offline() };
    let everything = [&[BLOG][..], &BROKEN, &NAIVE, &[FAR], &SHOP].concat();
    for (folder, flags, want) in [
        ("root", offline(), everything.clone()),
        ("root/blog", offline(), vec![BLOG]),
        ("root/blog/loadtests", offline(), vec![BLOG]),
        ("root/naïve tests/src", offline(), NAIVE.to_vec()),
        ("outside", offline(), vec![FAR]),
        ("root/plain", offline(), vec![]),
        ("root/blog", packages(&["shop@0.2.0", "out*"]), [&[FAR][..], &SHOP].concat()),
        ("root/blog", all_but(&[]), everything.clone()),
        ("root/blog", all_but(&["b*", "shop"]), [&NAIVE[..], &[FAR]].concat()),
        ("", at("root/Cargo.toml"), everything),
        ("root", at("blog/Cargo.toml"), vec![BLOG]),
    ] {
        let workspace = found(&fixture, folder, &flags).unwrap();
        assert_eq!(names(&workspace), want, "{folder} {flags:?}");
        assert_eq!(workspace.root, fixture.path("root"));
    }
}

#[test]
fn a_target_knows_its_package_and_source() {
    let fixture = Fixture::copy("shapes");
    let workspace = found(&fixture, "root/naïve tests", &offline()).unwrap();
    let run_it = &workspace.scenarios[1];
    assert_eq!(run_it.source, fixture.path("root/naïve tests/src/run it.rs"));
    assert_eq!(run_it.package_folder, fixture.path("root/naïve tests"));
    let blog = workspace.members.iter().find(|member| member.name == "blog").unwrap();
    assert_eq!(blog.bins, ["blog"]);
}

#[test]
fn a_file_that_calls_main_and_is_no_target_gets_advice() {
    let fixture = Fixture::copy("shapes");
    let workspace = found(&fixture, "root", &offline()).unwrap();
    let advice = |path: &str| {
        let path = fixture.path(path).display().to_string();
        let mut of_it = workspace.warnings.iter().filter(|warning| warning.message.contains(&path));
        let first = of_it.next().unwrap_or_else(|| panic!("{path}: {:?}", workspace.warnings));
        assert!(of_it.next().is_none());
        first.message.clone()
    };
    assert!(
        advice("root/blog/loadtests/stray.rs").contains("path = \"loadtests/stray.rs\" and harness = false")
    );
    assert!(advice("root/shop/loadtests/stray.rs").contains("name = \"stray\""));
    assert!(advice("root/plain/loadtests/load.rs").contains("cargo add --dev"));
    assert_eq!(workspace.warnings.len(), 3);
}

#[test]
fn a_configured_target_directory_is_respected() {
    let fixture = Fixture::copy("shapes");
    let target = |flags: &CargoFlags| found(&fixture, "root/blog", flags).unwrap().target_directory;
    let flags = CargoFlags { config: vec!["build.target-dir='my tärget'".to_owned()], ..offline() };
    assert_eq!(target(&flags), fixture.path("root/blog/my tärget"));
    let flags = CargoFlags { target_dir: Some("over there".into()), ..offline() };
    assert_eq!(target(&flags), fixture.path("root/blog/over there"));
}

#[test]
fn a_wrong_name_is_refused_with_the_one_that_was_meant() {
    let fixture = Fixture::copy("shapes");
    let error = |flags: &CargoFlags| found(&fixture, "root", flags).unwrap_err().to_string();
    let misspelt = CargoFlags { packages: vec!["blgo".into()], ..offline() };
    assert_eq!(error(&misspelt), "no package `blgo` in this workspace; did you mean `blog`?");
    let alone = CargoFlags { exclude: vec!["blog".into()], ..offline() };
    assert_eq!(error(&alone), "--exclude can only be used together with --workspace");

    let manifest = "root/naïve tests/Cargo.toml";
    let text = fixture.read(manifest);
    fixture.write(manifest, &text.replace("\"demo\"", "\"dmeo\""));
    assert!(
        error(&offline()).ends_with(
            "names `dmeo`, which is no bench, bin or example of the package; did you mean `demo`?"
        )
    );
    fixture.write(manifest, &text.replace("targets =", "target ="));
    assert!(error(&offline()).contains("unknown field `target`"));
}

#[test]
fn a_folder_without_a_workspace_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let cargo = Cargo::at(empty.path().to_owned());
    assert!(matches!(block_on(discover(&cargo, &offline())), Err(DiscoverError::Metadata)));
}
