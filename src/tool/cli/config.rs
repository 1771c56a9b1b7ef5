//! `cargo loadtest config`.

use super::Invocation;
use super::args::{ConfigArgs, MessageFormat};
use super::find;
use super::problem::Problem;
use crate::tool::config::{self, render_json, render_text};

pub(super) async fn config(call: &Invocation, args: &ConfigArgs) -> Result<u8, Problem> {
    let workspace = find::workspace(call).await?;
    let here = workspace.members.iter().find(|member| member.folder == call.cargo.folder());
    let flags = args.settings.flags(Some(&args.load));
    let config = config::load(&workspace.root, here.map(|member| member.folder.as_path()), &flags)?;
    call.console.out(&match args.message_format {
        MessageFormat::Human => render_text(&config),
        MessageFormat::Json => render_json(&config),
    });
    Ok(0)
}
