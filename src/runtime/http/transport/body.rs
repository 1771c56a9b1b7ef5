//! Bodies of responses, read to their end.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};

use super::connect::Channel;
use crate::runtime::http::error::TransportError;

/// Room that a `content-length` alone makes for a body; what comes beyond it grows as it comes.
const MOST_RESERVED: u64 = 16 << 20;

/// The longest body that is read: a response without end takes the generator's memory from all users.
pub(in crate::runtime::http) const MOST_BODY: u64 = 64 << 20;

/// A body that is coming in.
#[derive(Debug)]
pub(super) enum Body {
    Http1(Incoming),
    /// With the length that was announced.
    Http2(h2::RecvStream, u64),
}

impl Body {
    /// How long it is at least.
    fn expected(&self) -> u64 {
        match self {
            Self::Http1(body) => body.size_hint().lower(),
            Self::Http2(_, announced) => *announced,
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body, _) => body.is_end_stream(),
        }
    }

    /// What comes next of it, which may be empty; `None` at the end. Trailers are passed over.
    async fn next(&mut self, channel: &mut Channel) -> Option<Result<Bytes, TransportError>> {
        match self {
            Self::Http1(body) => {
                let Channel::Http1(sender) = channel else { return None };
                let frame = sender.frame(body).await?.map_err(TransportError::Body);
                Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
            }
            Self::Http2(body, _) => {
                let data = poll_fn(|cx| body.poll_data(cx)).await?;
                if let Ok(data) = &data {
                    // There is room for as much again. It fails when nothing more is to come.
                    let _ = body.flow_control().release_capacity(data.len());
                }
                Some(data.map_err(TransportError::Http2Body))
            }
        }
    }

    /// The whole body; where it comes in one piece, without copying it.
    pub(super) async fn whole(&mut self, channel: &mut Channel) -> Result<Bytes, TransportError> {
        let expected = self.expected();
        if expected > MOST_BODY {
            return Err(TransportError::TooLarge);
        }
        let mut first = Bytes::new();
        while first.is_empty() {
            match self.next(channel).await {
                Some(data) => first = data?,
                None => return Ok(first),
            }
        }
        if self.has_ended() {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(expected.min(MOST_RESERVED) as usize);
        whole.extend_from_slice(&first);
        while let Some(data) = self.next(channel).await {
            let more = data?;
            if (whole.len() + more.len()) as u64 > MOST_BODY {
                return Err(TransportError::TooLarge);
            }
            whole.extend_from_slice(&more);
        }
        Ok(whole.freeze())
    }

    /// Reads the body to its end and keeps nothing of it; how long it was.
    pub(super) async fn discarded(&mut self, channel: &mut Channel) -> Result<u64, TransportError> {
        let mut length = 0;
        while let Some(data) = self.next(channel).await {
            length += data?.len() as u64;
        }
        Ok(length)
    }
}
