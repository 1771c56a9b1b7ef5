//! What every service does from its first line to its last: arguments, telemetry, listening, stopping.

use std::{io, net::Ipv4Addr, pin::pin, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Parser;
use tokio::net::TcpListener;
use tracing::{error, info, warn};

use crate::telemetry;

/// How long requests under way may take after the signal to stop. Shorter than the second that
/// supervisors give at the least, so that the last spans still leave.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs a service, called `name` unless `OTEL_SERVICE_NAME` says otherwise, until it fails or is told
/// to stop by SIGTERM or Ctrl-C.
pub fn run<A: Parser>(name: &'static str, serve: impl AsyncFnOnce(A) -> anyhow::Result<()>) -> ExitCode {
    let args = A::parse();
    match start(name, async || serve(args).await) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(name: &'static str, serve: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    let telemetry = telemetry::init(name, runtime.handle())?;
    let served = runtime.block_on(serve());
    // Here and not inside the runtime: the flush blocks until the exporter, which needs the runtime's
    // threads, has sent.
    telemetry.shutdown();
    // A hash that nobody waits for any more must not delay the end.
    runtime.shutdown_background();
    served
}

/// Listens on the loopback interface, and says where.
pub(crate) async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .with_context(|| format!("cannot listen on port {port}"))?;
    info!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

/// Waits for `server`, which stops accepting at [`stop_signal`], but not longer than [`DRAIN`] after it.
pub(crate) async fn drain<E>(server: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let overdue = async {
        stop_signal().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        outcome = server => outcome,
        () = overdue => {
            warn!("requests were still under way {DRAIN:?} after the signal to stop");
            Ok(())
        }
    }
}

/// Resolves at SIGTERM or Ctrl-C, for each caller that waits.
pub(crate) async fn stop_signal() {
    let interrupt = pin!(tokio::signal::ctrl_c());
    let terminate = pin!(terminate());
    let heard = tokio::select! {
        heard = interrupt => heard,
        heard = terminate => heard,
    };
    if let Err(error) = heard {
        // Without handlers the signals end the process by themselves, which is all that is left.
        warn!("cannot wait for signals to stop: {error}");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

#[cfg(not(unix))]
async fn terminate() -> io::Result<()> {
    std::future::pending().await
}
