//! Edits of `Cargo.toml` that leave everything else as its author wrote it. Text in, text out.

use toml_edit::{Array, DocumentMut, Item, Table, Value, value};

use crate::tool::discover::SCENARIO_FOLDER;
use crate::tool::discover::select::glob;

/// A dependency as the workspace states it for its members.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WorkspaceDependency {
    pub(super) key: String,
    pub(super) default_features: bool,
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

/// Whether there is a `[[bench]]` of this name.
pub(super) fn has_bench(text: &str, name: &str) -> Result<bool, String> {
    let document = parse(text)?;
    let is_it = |item: Option<&str>| item == Some(name);
    Ok(match document.get("bench") {
        Some(Item::ArrayOfTables(benches)) => {
            benches.iter().any(|bench| is_it(bench.get("name").and_then(Item::as_str)))
        }
        Some(Item::Value(Value::Array(benches))) => benches
            .iter()
            .filter_map(Value::as_inline_table)
            .any(|bench| is_it(bench.get("name").and_then(Value::as_str))),
        _ => false,
    })
}

/// Adds the target of a scenario.
pub(super) fn with_bench(text: &str, name: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let mut bench = Table::new();
    bench.insert("name", value(name));
    bench.insert("path", value(format!("{SCENARIO_FOLDER}/{name}.rs")));
    bench.insert("harness", value(false));
    match document.entry("bench").or_insert_with(|| Item::ArrayOfTables(toml_edit::ArrayOfTables::new())) {
        Item::ArrayOfTables(benches) => {
            bench.decor_mut().set_prefix("\n");
            benches.push(bench);
        }
        Item::Value(Value::Array(benches)) => push(benches, bench.into_inline_table().into()),
        _ => return Err("`bench` is no array of tables".to_owned()),
    }
    Ok(document.to_string())
}

/// Adds a folder to the members of the workspace, unless a pattern there covers it.
pub(super) fn with_member(text: &str, folder: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let members = document
        .get_mut("workspace")
        .and_then(Item::as_table_like_mut)
        .ok_or("it has no [workspace]")?
        .entry("members")
        .or_insert_with(|| value(Array::new()))
        .as_array_mut()
        .ok_or("`workspace.members` is no array")?;
    let covered = |member: &str| glob(member.trim_end_matches('/').as_bytes(), folder.as_bytes());
    if members.iter().filter_map(Value::as_str).any(covered) {
        return Ok(text.to_owned());
    }
    push(members, folder.into());
    Ok(document.to_string())
}

/// Adds an item that stands as the one before it does: on a line of its own, or not. A comment behind the last comma
/// stays behind it.
fn push(array: &mut Array, mut item: Value) {
    let prefix = array.iter().last().and_then(|last| last.decor().prefix()?.as_str().map(str::to_owned));
    let Some((_, indent)) = prefix.as_deref().and_then(|prefix| prefix.rsplit_once('\n')) else {
        array.push(item);
        return;
    };
    let trailing = array.trailing().as_str().unwrap_or_default().to_owned();
    let comment = trailing.trim_end();
    item.decor_mut().set_prefix(format!("{comment}\n{indent}"));
    array.push_formatted(item);
    array.set_trailing(&trailing[comment.len()..]);
}

/// The entry of `[workspace.dependencies]` that stands for `package`.
pub(super) fn workspace_dependency(text: &str, package: &str) -> Result<Option<WorkspaceDependency>, String> {
    let document = parse(text)?;
    let dependencies = document
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(Item::as_table_like);
    let Some(dependencies) = dependencies else { return Ok(None) };
    Ok(dependencies
        .iter()
        .find(|(key, item)| item.get("package").and_then(Item::as_str).unwrap_or(key) == package)
        .map(|(key, item)| WorkspaceDependency {
            key: key.to_owned(),
            default_features: item.get("default-features").and_then(Item::as_bool).unwrap_or(true),
        }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "# Ours.\n[package]\nname = \"a\" # short\n\n[dependencies]\nb   = '1'\n";

    #[test]
    fn a_target_is_added_and_the_rest_left_as_it_was() {
        let entry = "\n[[bench]]\nname = \"auth\"\npath = \"loadtests/auth.rs\"\nharness = false\n";
        assert_eq!(with_bench(PACKAGE, "auth").unwrap(), format!("{PACKAGE}{entry}"));

        let other = "[[bench]]\nname = \"x\"\n\n[features]\n";
        assert_eq!(
            with_bench(other, "auth").unwrap(),
            format!("[[bench]]\nname = \"x\"\n{entry}\n[features]\n")
        );
        let inline = "bench = [\n    { name = \"x\" }, # mine\n]\n";
        let with = with_bench(inline, "auth").unwrap();
        assert!(with.contains("# mine\n    { name = \"auth\", path = \"loadtests/auth.rs\""), "{with}");
        for (text, there) in
            [(with.as_str(), true), (&with_bench(other, "auth").unwrap(), true), (PACKAGE, false)]
        {
            assert_eq!(has_bench(text, "auth"), Ok(there));
        }
        assert!(with_bench("bench = 1", "auth").is_err());
    }

    #[test]
    fn a_member_is_added_unless_it_is_covered() {
        for (text, want) in [
            ("[workspace]\nmembers = [\"a\"]\n", "[workspace]\nmembers = [\"a\", \"loadtests\"]\n"),
            (
                "[workspace]\nmembers = [\n    \"a\",\n    \"b\", # two\n]\n",
                "[workspace]\nmembers = [\n    \"a\",\n    \"b\", # two\n    \"loadtests\",\n]\n",
            ),
            ("[workspace]\nmembers = [\"*\"]\n", "[workspace]\nmembers = [\"*\"]\n"),
            (
                "[workspace]\nmembers = [\"crates/*\"]\n",
                "[workspace]\nmembers = [\"crates/*\", \"loadtests\"]\n",
            ),
            ("[workspace]\nresolver = \"3\"\n", "[workspace]\nresolver = \"3\"\nmembers = [\"loadtests\"]\n"),
        ] {
            assert_eq!(with_member(text, "loadtests").as_deref(), Ok(want), "{text}");
        }
        assert!(with_member(PACKAGE, "loadtests").is_err());
    }

    #[test]
    fn the_workspaces_entry_is_found_under_its_own_or_another_name() {
        let found = |entry: &str| {
            workspace_dependency(&format!("[workspace.dependencies]\n{entry}\n"), "cargo-loadtest")
                .unwrap()
                .map(|it| (it.key, it.default_features))
        };
        let named = |key: &str, features| Some((key.to_owned(), features));
        assert_eq!(found("cargo-loadtest = '1'"), named("cargo-loadtest", true));
        assert_eq!(
            found("lt = { package = 'cargo-loadtest', version = '1', default-features = false }"),
            named("lt", false)
        );
        assert_eq!(found("cargo-loadtest = { package = 'other', version = '1' }"), None);
        assert_eq!(workspace_dependency(PACKAGE, "cargo-loadtest"), Ok(None));
    }
}
