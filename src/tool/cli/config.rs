//! `cargo loadtest config`.

use std::path::Path;

use super::Invocation;
use super::args::{ConfigArgs, MessageFormat};
use super::find;
use super::problem::Problem;
use super::session;
use crate::sys;
use crate::tool::config::{self, render_json, render_text};

pub(super) async fn config(call: &Invocation, args: &ConfigArgs) -> Result<u8, Problem> {
    let workspace = find::workspace(call).await?;
    let manifest = call.cargo.manifest(&call.flags).map(|path| sys::fs::canonical(&path));
    let folder = manifest.as_deref().and_then(Path::parent);
    let here =
        workspace.members.iter().find(|member| Some(sys::fs::canonical(&member.folder).as_path()) == folder);
    let flags = args.settings.flags(Some(&args.load));
    let config = config::load(&workspace.root, here.map(|member| member.folder.as_path()), &flags)?;
    call.console.out(&match args.output.message_format {
        MessageFormat::Human => render_text(&config),
        MessageFormat::Json => render_json(&config),
    });
    // What `run` would refuse is refused here, once it is seen where it comes from.
    session::check(&workspace, &config, true).map(|()| 0)
}
