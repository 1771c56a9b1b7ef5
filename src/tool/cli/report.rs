//! `cargo loadtest report`.

use super::Invocation;
use super::args::{MessageFormat, ReportArgs};
use super::find;
use super::problem::Problem;
use crate::tool::report::{json, text};
use crate::tool::results::{ResultsError, RunFolder, recover};

pub(super) async fn report(call: &Invocation, args: &ReportArgs) -> Result<u8, Problem> {
    let workspace = find::workspace(call).await?;
    let folder = RunFolder::find(&workspace.target_directory, args.run.as_deref())?;
    let summary = match folder.summary() {
        // A run that has ended has told more than its journal has.
        Err(ResultsError::NotFinished { .. }) if args.recover => {
            let summary = recover(&folder)?;
            call.console.status("Recovered", &format!("run {} from its journal", folder.id()));
            summary
        }
        stored => stored?,
    };
    call.console.out(&match args.output.message_format {
        MessageFormat::Human => {
            let options = text::Options {
                columns: args.columns.columns(),
                phases: args.columns.phases,
                style: call.console.style(),
                ..Default::default()
            };
            text::report(&summary, &options)
        }
        MessageFormat::Json => String::from_utf8_lossy(&json::summary(&summary)).into_owned(),
    });
    // A stored run's failures are told, and are no failure of this command.
    for failure in text::failures(&summary) {
        call.console.status("Failed", &failure);
    }
    Ok(0)
}
