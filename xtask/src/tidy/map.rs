//! Rules about ARCHITECTURE.md: each folder of `src/` has its line there, no line is of a folder that is gone, and what
//! must stay absent is written down.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{File, Tree};

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn folders_are_mapped(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(MAP) else {
        return vec![Finding::new(MAP, 1, "there is no map of the source")];
    };
    let mapped = mapped_folders(file);
    let folders = tree.source_folders();
    let mut findings = Vec::new();
    for (folder, (line, says)) in mapped.iter().filter(|(folder, _)| *folder != "src") {
        if !folders.contains(&folder.as_str()) {
            findings.push(Finding::new(
                MAP,
                *line,
                format!("`{folder}/` is mapped, but there is no such folder"),
            ));
        } else if says.is_empty() {
            findings.push(Finding::new(
                MAP,
                *line,
                format!("the line of `{folder}/` does not say what it owns"),
            ));
        }
    }
    let head = mapped.get("src").map_or(1, |(line, _)| *line);
    for folder in folders.iter().filter(|folder| !mapped.contains_key(**folder)) {
        findings.push(Finding::new(MAP, head, format!("`{folder}/` has no line in the map")));
    }
    findings.sort();
    findings
}

/// The folders under `src/` in the indented tree of a fenced block, with their line and what it says of them.
fn mapped_folders(file: &File) -> BTreeMap<String, (usize, String)> {
    let mut folders = BTreeMap::new();
    let mut fenced = false;
    // The folders that enclose the line, each with its indentation.
    let mut open: Vec<(usize, &str)> = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            open.clear();
        }
        let content = line.trim_start();
        let (name, says) = content.split_once(' ').unwrap_or((content, ""));
        let Some(name) = name.strip_suffix('/').filter(|_| fenced) else { continue };
        let indent = line.len() - content.len();
        open.retain(|(outer, _)| *outer < indent);
        open.push((indent, name));
        if open[0].1 == "src" {
            let path: Vec<_> = open.iter().map(|(_, name)| *name).collect();
            folders.insert(path.join("/"), (number, says.trim().to_owned()));
        }
    }
    folders
}

pub(super) fn invariants_are_written_down(tree: &Tree) -> Vec<Finding> {
    let lines: Vec<_> = tree.file(MAP).iter().flat_map(|file| file.lines()).collect();
    let is_heading = |line: &str| line.starts_with('#');
    let Some(at) =
        lines.iter().position(|(_, line)| is_heading(line) && line.to_lowercase().contains("invariant"))
    else {
        return vec![Finding::new(MAP, 1, "no section of invariants: what must stay absent")];
    };
    let section = lines[at + 1..].iter().take_while(|(_, line)| !is_heading(line));
    let items =
        section.filter(|(_, line)| line.starts_with("- ") || line.starts_with(|c: char| c.is_ascii_digit()));
    if items.count() == 0 {
        return vec![Finding::new(MAP, lines[at].0, "the section of invariants lists none")];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::{MAP, folders_are_mapped, invariants_are_written_down};

    #[test]
    fn a_folder_that_is_not_on_the_map_is_found() {
        let sample = Sample::good();
        sample.write("src/runtime/engine/mod.rs", "//! Engine.\n");
        sample.assert_lines(folders_are_mapped, MAP, &[4]);
        // A folder of that name elsewhere is not its line.
        sample.replace(
            MAP,
            "  tool/      the subcommand\n",
            "  tool/      the subcommand\nengine/   elsewhere\n",
        );
        sample.assert_lines(folders_are_mapped, MAP, &[4]);
        sample.replace(MAP, "  tool/ ", "    engine/  drives users\n  tool/ ");
        sample.assert_lines(folders_are_mapped, MAP, &[]);
    }

    #[test]
    fn a_line_that_says_nothing_or_is_of_a_folder_that_is_gone_is_found() {
        let sample = Sample::good();
        sample.replace(MAP, "  model/     values\n", "  model/\n  attic/     old things\n");
        sample.assert_lines(folders_are_mapped, MAP, &[5, 6]);
    }

    #[test]
    fn a_missing_map_is_found() {
        let sample = Sample::good();
        sample.remove(MAP);
        sample.assert_lines(folders_are_mapped, MAP, &[1]);
        sample.assert_lines(invariants_are_written_down, MAP, &[1]);
    }

    #[test]
    fn missing_and_empty_invariants_are_found() {
        let sample = Sample::good();
        sample.replace(
            MAP,
            "- `model` has no clock.\n",
            "\nTo be written.\n\n## Next\n\n- not one of them\n",
        );
        sample.assert_lines(invariants_are_written_down, MAP, &[11]);
        sample.replace(MAP, "## Invariants", "## Promises");
        sample.assert_lines(invariants_are_written_down, MAP, &[1]);
    }
}
