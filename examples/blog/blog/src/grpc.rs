//! gRPC between the services, with a span at each end of a call.

use std::{convert::Infallible, time::Duration};

use tonic::{
    body::Body,
    codegen::{Service, http},
    server::NamedService,
    transport::{Channel, Endpoint, Server, Uri, server::TcpIncoming},
};
use tonic_tracing_opentelemetry::middleware::{
    client::{OtelGrpcLayer as ClientLayer, OtelGrpcService},
    server::OtelGrpcLayer as ServerLayer,
};
use tower::Layer as _;

use crate::service::{drain, listen, stop_signal};

/// The way to another service.
pub(crate) type Peer = OtelGrpcService<Channel>;

/// A call that takes longer has failed, also under heavy load.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects when first called, so that the services may start in any order. Needs the runtime.
pub(crate) fn peer(address: Uri) -> Peer {
    let endpoint = Endpoint::from(address).connect_timeout(Duration::from_secs(2)).timeout(CALL_TIMEOUT);
    ClientLayer.layer(endpoint.connect_lazy())
}

/// Serves one gRPC service on a loopback port until told to stop.
pub(crate) async fn serve<S>(port: u16, service: S) -> anyhow::Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let incoming = TcpIncoming::from(listen(port).await?).with_nodelay(Some(true));
    let server = Server::builder()
        .layer(ServerLayer::default())
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stop_signal());
    Ok(drain(server).await?)
}
