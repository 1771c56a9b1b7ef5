//! An exchange over HTTP/1, on hyper.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use tokio::task::coop::has_budget_remaining;

use super::driven::Driven;
use super::payload::Payload;
use super::progress::Progress;
use super::wire::Marks;
use super::{Attempt, Failed};
use crate::runtime::http::error::TransportError;

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(super) struct Sender {
    requests: SendRequest<Payload>,
    connection: Driven,
    marks: Arc<Marks>,
}

impl Sender {
    pub(super) fn new(requests: SendRequest<Payload>, connection: Driven, marks: Arc<Marks>) -> Self {
        Self { requests, connection, marks }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Waits until the request before is out of the way; an error when the connection is closed.
    pub(super) async fn ready(&mut self) -> Result<(), TransportError> {
        let Self { requests, connection, .. } = self;
        let ready = poll_fn(|cx| {
            connection.look(cx);
            if !requests.is_ready() {
                connection.set_woken(true);
            }
            connection.poll(cx, |cx| requests.poll_ready(cx))
        });
        ready.await.map_err(TransportError::Exchange)
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) fn exchange(
        &mut self,
        request: http::Request<Payload>,
        progress: &mut Progress,
    ) -> impl Future<Output = Attempt<Incoming>> {
        self.marks.begin();
        progress.watch(self.marks.clone());
        // Handed over before the future is made, so that it has no room for the request of its own.
        let Self { requests, connection, .. } = self;
        let sent = connection.quietly(|| requests.try_send_request(request));
        async move {
            let mut sent = pin!(sent);
            let sent = poll_fn(|cx| self.connection.poll(cx, |cx| sent.as_mut().poll(cx))).await;
            sent.inspect(|_| progress.answer(self.marks.sent(), self.marks.answered())).map_err(|error| {
                Failed {
                    is_unsent: error.message().is_some() || !self.marks.is_touched(),
                    is_unanswered: self.marks.answered().is_none(),
                    ends_connection: true,
                    error: TransportError::Exchange(error.into_error()),
                }
            })
        }
    }

    /// What comes next of a body on this connection.
    pub(super) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        let was_woken = self.connection.is_woken();
        let frame = poll_fn(|cx| self.connection.poll(cx, |cx| Pin::new(&mut *body).poll_frame(cx))).await;
        if body.is_end_stream() && !was_woken && has_budget_remaining() {
            // To ask for the next piece wakes the connection, but there is none.
            self.connection.set_woken(false);
        }
        frame
    }
}
