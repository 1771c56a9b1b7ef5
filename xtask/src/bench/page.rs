//! The part of docs/performance.md that the benchmark writes: between two comments for each section.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Puts `text` in the place of what section `name` was on the page at `path`.
pub(super) fn write(path: &Path, name: &str, text: &str) -> Result<()> {
    let page = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let page = with(&page, name, text).with_context(|| {
        format!("{} has no `{}` with `{}` after it", path.display(), begin(name), end(name))
    })?;
    fs::write(path, page).with_context(|| format!("could not write {}", path.display()))
}

fn begin(name: &str) -> String {
    format!("<!-- {name}: written by `cargo xtask bench --write` -->")
}

fn end(name: &str) -> String {
    format!("<!-- {name}: end -->")
}

fn with(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (begin(name), end(name));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn a_section_is_replaced_and_nothing_else_of_the_page() {
        let page = "# Page\n\n<!-- cpu: written by `cargo xtask bench --write` -->\nold\n<!-- cpu: end -->\n\n\
            <!-- memory: written by `cargo xtask bench --write` -->\n<!-- memory: end -->\nafter\n";
        let new = with(page, "cpu", "\nnew\n").unwrap();
        assert_eq!(new, page.replace("\nold\n", "\nnew\n"));
        assert_eq!(with(&new, "cpu", "new").as_ref(), Some(&new));
        assert!(with(page, "memory", "new").unwrap().contains("-->\nnew\n<!-- memory: end -->\nafter\n"));
        assert_eq!(with(page, "lateness", "new"), None);
        assert_eq!(with(&page.replace("<!-- cpu: end -->", ""), "cpu", "new"), None);
    }

    #[test]
    fn the_page_has_a_place_for_each_section() {
        let page = std::fs::read_to_string(crate::root().join(crate::bench::PAGE)).unwrap();
        for section in crate::bench::Section::ALL {
            assert!(with(&page, section.name(), "new").is_some(), "{section:?}");
        }
    }
}
