//! An exchange over HTTP/2: on `h2` itself, which says when a stream was opened and what the server never looked at.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};

use super::payload::Payload;
use super::progress::Progress;
use super::{Attempt, Failed};
use crate::runtime::http::error::TransportError;
use crate::sys::clock;

/// What the server may send before it is told that there is room for more: of one stream, and of all.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 5 << 20;

/// Numbers connections, to tell one from the other.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// A connection that takes requests beside each other, as many as the server lets it.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    requests: SendRequest<Bytes>,
    connection: u64,
}

/// Greets the server. What it answers is not waited for.
pub(super) async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, h2::Error> {
    let (requests, connection) = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(stream)
        .await?;
    tokio::spawn(async move {
        // Whoever waits for a response is told the error too.
        let _ = connection.await;
    });
    Ok(Sender { requests, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) })
}

impl Sender {
    /// Whether both are of the same connection.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.connection == other.connection
    }

    /// An error when the connection is closed, or was told to take no more.
    pub(super) async fn ready(&mut self) -> Result<(), TransportError> {
        poll_fn(|cx| self.requests.poll_ready(cx)).await.map_err(TransportError::Http2)
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        request: http::Request<Payload>,
        progress: &mut Progress,
    ) -> Attempt<RecvStream> {
        let (parts, body) = request.into_parts();
        let request = http::Request::from_parts(parts, ());
        let (response, stream) = self.requests.send_request(request, body.is_empty()).map_err(unopened)?;
        // Beyond as many streams as the server lets there be, this one waits for another to end.
        let mut has_waited = false;
        let opened = poll_fn(|cx| {
            let opened = self.requests.poll_ready(cx);
            if opened.is_pending() && !has_waited {
                has_waited = true;
                progress.block();
            }
            opened
        })
        .await;
        if has_waited {
            opened.map_err(unopened)?;
            progress.hand();
        }
        let (mut response, mut sending) = (pin!(response), pin!(send(stream, body)));
        let mut sent = None;
        // The server may answer, or refuse, before it has the whole body.
        let answer = poll_fn(|cx: &mut Context<'_>| {
            if sent.is_none()
                && let Poll::Ready(at) = sending.as_mut().poll(cx)
            {
                sent = Some(at);
                progress.sent(at);
            }
            response.as_mut().poll(cx)
        })
        .await;
        let answer = answer.map_err(refused)?;
        progress.answer(sent, Some(clock::now()));
        Ok(answer)
    }
}

/// Hands the body over as the server makes room for it; when it was all handed over, or not wanted any more.
async fn send(mut stream: SendStream<Bytes>, mut body: Payload) -> Instant {
    let mut piece = Bytes::new();
    loop {
        if piece.is_empty() {
            match body.next() {
                Some(next) => piece = next,
                None => break,
            }
        }
        stream.reserve_capacity(piece.len());
        // What is wrong is said where the answer is waited for.
        let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
        let part = piece.split_to(room.min(piece.len()));
        let is_last = piece.is_empty() && body.is_empty();
        if !part.is_empty() && stream.send_data(part, is_last).is_err() {
            break;
        }
    }
    clock::now()
}

/// The stream was never opened: nothing of the request was sent.
fn unopened(error: h2::Error) -> Failed {
    // Neither the connection nor the server has anything against it: the request itself cannot be sent, and no other
    // connection would change that.
    if !error.is_io() && !error.is_go_away() && !error.is_reset() {
        return Failed {
            is_unsent: false,
            is_unanswered: true,
            ends_connection: false,
            error: TransportError::Http2Unsendable(error),
        };
    }
    Failed {
        is_unsent: true,
        is_unanswered: true,
        ends_connection: true,
        error: TransportError::Http2(error),
    }
}

/// A server says which streams it has not looked at and will not: those after the last that a GOAWAY names, and those
/// that it refuses one by one.
fn refused(error: h2::Error) -> Failed {
    let goes_away = error.is_remote() && error.is_go_away();
    let is_refused = error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    Failed {
        is_unsent: goes_away || is_refused,
        is_unanswered: true,
        ends_connection: !error.is_reset(),
        error: TransportError::Http2(error),
    }
}
