//! `cargo loadtest new`.

use super::Invocation;
use super::args::NewArgs;
use super::problem::Problem;
use crate::tool::scaffold::{self, LibrarySource};

pub(super) async fn new(call: &Invocation, args: &NewArgs) -> Result<u8, Problem> {
    let source = match (&args.path, &args.git) {
        (Some(path), _) => LibrarySource::Path(path.clone()),
        (None, Some(git)) => LibrarySource::Git(git.clone()),
        (None, None) => LibrarySource::Usual,
    };
    let created = scaffold::new(&call.cargo, &call.flags, &args.name, &source).await?;
    created.warnings.iter().for_each(|warning| call.console.warning(warning));
    if created.package_is_new {
        call.console
            .status("Created", &format!("package {} ({})", created.package, created.manifest.display()));
    }
    call.console.status("Created", &format!("{}", created.scenario.display()));
    call.console.status("Next", &format!("cargo loadtest {} --base-url http://127.0.0.1:8080", args.name));
    Ok(0)
}
