//! An exchange over HTTP/1, on hyper.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::payload::Payload;
use super::progress::Progress;
use super::wire::Marks;
use super::{Attempt, Failed};
use crate::runtime::http::error::TransportError;

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(super) struct Sender {
    requests: SendRequest<Payload>,
    marks: Arc<Marks>,
}

impl Sender {
    pub(super) fn new(requests: SendRequest<Payload>, marks: Arc<Marks>) -> Self {
        Self { requests, marks }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Waits until the request before is out of the way; an error when the connection is closed.
    pub(super) async fn ready(&mut self) -> Result<(), TransportError> {
        self.requests.ready().await.map_err(TransportError::Exchange)
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
        let sent = self.requests.try_send_request(request);
        async move {
            let sent = sent.await;
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
}
