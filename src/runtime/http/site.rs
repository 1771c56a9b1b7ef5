//! What the users of a scenario send their requests to, and how they connect to it.

use std::sync::Arc;

use super::options::HttpOptions;
use super::target::Target;
use super::transport::{Connector, TlsConfigs, Transport, usual_tls};
use crate::model::event::Warning;
use crate::model::http::HttpPlan;

/// The same for all users of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Site {
    pub(crate) target: Target,
    pub(crate) connector: Arc<Connector>,
}

impl Site {
    /// The transport of the user with this number, from 1.
    pub(crate) fn transport(&self, user: u64) -> Transport {
        Transport::new(self.connector.clone(), user)
    }

    /// How many source addresses its users have.
    pub(crate) fn sources(&self) -> u64 {
        self.connector.sources()
    }
}

/// Makes the sites of a run's scenarios, which share what costs much to make.
#[derive(Debug)]
pub(crate) struct Sites<'p> {
    plan: &'p HttpPlan,
    target: Target,
    tls: TlsConfigs,
}

impl<'p> Sites<'p> {
    pub(crate) fn new(plan: &'p HttpPlan, base_url: Option<&str>) -> Result<Self, String> {
        Ok(Self { plan, target: Target::new(base_url)?, tls: TlsConfigs::default() })
    }

    /// The site of a scenario that says `own`, with what there is to warn of.
    pub(crate) fn of(
        &mut self,
        scenario: &str,
        own: &HttpOptions,
    ) -> Result<(Arc<Site>, Option<Warning>), String> {
        let of_this = |why| format!("scenario `{scenario}`: {why}");
        let settings = own.settings().and_then(|own| self.plan.around(own)).map_err(of_this)?;
        let tls = self.tls.of(&settings).map_err(of_this)?;
        if tls.is_none() && self.target.is_secure() {
            usual_tls(settings.version.unwrap_or_default()).map_err(of_this)?;
        }
        let warning = (settings.insecure == Some(true)).then(|| {
            let message = format!(
                "{scenario} takes any certificate for the server's (insecure): whoever stands between could have \
                 answered, and verifying certificates is no part of the figures"
            );
            Warning::new("tls-insecure", message)
        });
        let target = self.target.clone().for_settings(&settings);
        let connector = Arc::new(Connector::new(settings, tls).map_err(of_this)?);
        Ok((Arc::new(Site { target, connector }), warning))
    }
}
