//! `cargo loadtest list`.

use std::fmt::Write as _;

use super::Invocation;
use super::args::{ListArgs, MessageFormat};
use super::find::{self, Found};
use super::problem::Problem;
use crate::model::plain::plain;

pub(super) async fn list(call: &Invocation, args: &ListArgs) -> Result<u8, Problem> {
    find::check_filters(&args.which.filters)?;
    let found = find::scenarios(call, &args.which.filters, &args.settings.flags(None)).await?;
    found.warn_of_unusable(call);
    if let Some(why) = found.nothing(&args.which.filters).filter(|_| found.unusable.is_empty()) {
        return find::nothing_to_run(call, args.which.no_tests, why);
    }
    call.console.out(&match args.output.message_format {
        MessageFormat::Human => text(&found),
        MessageFormat::Json => json(&found),
    });
    Ok(0)
}

fn text(found: &Found) -> String {
    let mut out = String::new();
    for binary in &found.binaries {
        for info in &binary.scenarios {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{}::{}  {}", plain(&binary.target.package), info.name, info.describe());
            for threshold in &info.thresholds {
                let _ = writeln!(out, "    {}: {}", plain(&threshold.metric), plain(&threshold.expression));
            }
        }
    }
    out
}

/// One object a scenario and line.
fn json(found: &Found) -> String {
    let mut out = String::new();
    for binary in &found.binaries {
        for info in &binary.scenarios {
            let line = serde_json::json!({
                "package": binary.target.package,
                "target": binary.target.name,
                "name": info.name,
                "load": info.load,
                "timing": info.timing,
                "thresholds": info.thresholds,
            });
            let _ = writeln!(out, "{line}");
        }
    }
    out
}
