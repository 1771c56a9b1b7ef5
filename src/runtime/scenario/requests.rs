//! What a scenario says once for all of its requests.

use super::Scenario;
use crate::runtime::http::{HttpOptions, StatusSet};

impl Scenario {
    /// How the scenario's users connect and speak HTTP, in place of what was said before.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # use loadtest::HttpOptions;
    /// # async fn flow(_: &Vu) -> Result { Ok(()) }
    /// # let _ =
    /// scenario("shop", flow).http(HttpOptions::new().http2_prior_knowledge().connect_timeout(secs(2)))
    /// # ;
    /// ```
    #[must_use]
    pub fn http(mut self, options: HttpOptions) -> Self {
        self.requests.http = options;
        self
    }

    /// Which statuses are a success, for each request that says nothing else with
    /// [`Request::expected_status`](crate::Request::expected_status). 200 to 399 unless set.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # async fn flow(_: &Vu) -> Result { Ok(()) }
    /// # let _ =
    /// scenario("limits", flow).expected_status([200, 429])
    /// # ;
    /// ```
    #[must_use]
    pub fn expected_status(mut self, expected: impl Into<StatusSet>) -> Self {
        self.requests.expected = expected.into();
        self
    }

    /// How many redirects of a request are followed, at most, for each request that says nothing else with
    /// [`Request::max_redirects`](crate::Request::max_redirects). 10 unless set; with 0 a redirect is the response.
    #[must_use]
    pub fn max_redirects(mut self, at_most: u32) -> Self {
        self.requests.max_redirects = at_most;
        self
    }

    /// Reads the bodies of responses without keeping them, for each request that says nothing else with
    /// [`Request::keep_body`](crate::Request::keep_body); see [`Request::discard_body`](crate::Request::discard_body).
    #[must_use]
    pub fn discard_bodies(mut self) -> Self {
        self.requests.discard_bodies = true;
        self
    }

    /// Accepts compressed responses to all requests, and decompresses them; see
    /// [`Request::accept_compressed`](crate::Request::accept_compressed). A request opts out with a header of its own, such
    /// as `.header("accept-encoding", "identity")`.
    #[must_use]
    pub fn accept_compressed(mut self) -> Self {
        self.requests.accept_compressed = true;
        self
    }

    /// Keeps a user's [cookies](crate::Vu::cookies) from iteration to iteration, with those from its own setup, where
    /// otherwise each iteration begins without any.
    ///
    /// ```
    /// use loadtest::prelude::*;
    ///
    /// let signed_in = stateful("signed-in")
    ///     .vu_setup(async |vu: &Vu, (): &()| -> Result {
    ///         vu.post("/login").form([("name", "ada")]).send().await?.expect_status(204)?;
    ///         Ok(())
    ///     })
    ///     .iteration(async |vu: &Vu, (): &mut (), (): &()| -> Result {
    ///         vu.get("/account").send().await?;      // with the session's cookie
    ///         Ok(())
    ///     })
    ///     .keep_cookies();
    /// # let _ = signed_in;
    /// ```
    #[must_use]
    pub fn keep_cookies(mut self) -> Self {
        self.requests.keep_cookies = true;
        self
    }
}
