//! Requests beside each other.

use std::collections::HashMap;
use std::future::IntoFuture;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::request::Request;
use super::response::Response;
use crate::runtime::error::Result;

/// As k6 has them.
const AT_MOST: usize = 20;
const AT_MOST_PER_HOST: usize = 6;

/// Requests that are sent beside each other, from [`Vu::batch`](crate::Vu::batch). Nothing happens before it is awaited.
#[derive(Debug)]
#[must_use = "requests do nothing until they are awaited"]
pub struct Batch<'v> {
    requests: Vec<Request<'v>>,
    at_most: usize,
    at_most_per_host: usize,
}

impl<'v> Batch<'v> {
    pub(crate) fn new(requests: Vec<Request<'v>>) -> Self {
        Self { requests, at_most: AT_MOST, at_most_per_host: AT_MOST_PER_HOST }
    }

    /// How many are on their way at once: 20 unless set, at least 1.
    pub fn at_most(mut self, requests: usize) -> Self {
        self.at_most = requests.max(1);
        self
    }

    /// How many are on their way at once to one host and port: 6 unless set, at least 1.
    pub fn at_most_per_host(mut self, requests: usize) -> Self {
        self.at_most_per_host = requests.max(1);
        self
    }

    async fn send(self) -> Vec<Result<Response>> {
        let mut results: Vec<Option<Result<Response>>> = Vec::new();
        let mut waiting = Vec::new();
        for (place, request) in self.requests.into_iter().enumerate() {
            match request.ready() {
                Ok(ready) => {
                    waiting.push((place, ready.origin(), ready));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err((*error).into()))),
            }
        }
        let mut running = FuturesUnordered::new();
        let mut by_origin: HashMap<_, usize> = HashMap::new();
        loop {
            let mut next = 0;
            while running.len() < self.at_most && next < waiting.len() {
                let to_it = by_origin.entry(waiting[next].1.clone()).or_default();
                if *to_it == self.at_most_per_host {
                    next += 1;
                    continue;
                }
                *to_it += 1;
                let (place, origin, ready) = waiting.remove(next);
                running.push(async move { (place, origin, ready.send().await) });
            }
            let Some((place, origin, result)) = running.next().await else { break };
            *by_origin.entry(origin).or_default() -= 1;
            results[place] = Some(result);
        }
        // All were ready or refused, and all that were ready have ended.
        results.into_iter().flatten().collect()
    }
}

impl<'v> IntoFuture for Batch<'v> {
    type Output = Vec<Result<Response>>;
    type IntoFuture = LocalBoxFuture<'v, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
