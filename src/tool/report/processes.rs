//! The table of what processes used of this host.

use super::Style;
use crate::model::plain::plain;
use crate::model::summary::{Process, Summary};

const HEADER: [&str; 6] = ["", "cpu avg", "cpu max", "cpu wait", "rss(MiB)", "files"];

/// One line a process: the generator's own, the services, and what else is watched. Empty where the OS does not tell.
pub(super) fn section(summary: &Summary, style: Style) -> String {
    let processes = &summary.health.processes;
    if processes.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 6]> =
        std::iter::once(HEADER.map(str::to_owned)).chain(processes.iter().map(cells)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default());
    let mut out = format!(
        "\n{}   (CPU: of all cores; wait: time waiting for one over time having one; memory and files: peaks)\n",
        style.bold("processes")
    );
    for row in &rows {
        let name = format!("{:width$}", row[0], width = widths[0]);
        let figures: String =
            row.iter().zip(widths).skip(1).map(|(cell, width)| format!("  {cell:>width$}")).collect();
        out.push_str(&format!("  {name}{figures}\n"));
    }
    out
}

fn cells(process: &Process) -> [String; 6] {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let name = plain(&process.name);
    [
        if process.processes > 1 { format!("{name} ({} processes)", process.processes) } else { name },
        percent(process.cpu_share),
        or_dash(process.cpu_share_max.map(percent)),
        or_dash(process.runqueue_wait_ratio.map(|ratio| format!("{ratio:.1}×"))),
        or_dash(process.rss_bytes_max.map(|bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)))),
        or_dash(process.open_files_max.map(|files| files.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;

    #[test]
    fn each_process_has_a_line_and_what_is_not_told_a_dash() {
        let mut summary = sample::summary();
        summary.health.processes.push(Process {
            name: "post\u{1b}[31mgres".to_owned(),
            pid: 9,
            cpu_share: 0.054,
            processes: 12,
            ..Process::default()
        });
        let text = section(&summary, Style::Plain);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["cpu", "avg", "cpu", "max", "cpu", "wait", "rss(MiB)", "files"]);
        assert_eq!(rows[1], ["auth", "91%", "95%", "7.0×", "20.0", "41"]);
        assert_eq!(rows[3], ["postgres", "(12", "processes)", "5%", "-", "-", "-", "-"]);
        let widths: Vec<usize> = text.lines().skip(2).map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }

    #[test]
    fn where_the_system_does_not_tell_there_is_no_table() {
        let mut summary = sample::summary();
        summary.health.processes.clear();
        assert_eq!(section(&summary, Style::Plain), "");
    }
}
