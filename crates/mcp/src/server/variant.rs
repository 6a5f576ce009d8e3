//! A server as its callers with equal variables have it: how it is reached, and what hides its secrets.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pentad_process::passes_always;

use super::config::Reach;
use super::core::Core;
use super::endpoint::Endpoint;
use super::http::Remote;
use super::start::StartFailure;
use super::stderr::Mask;
use super::way::Values;

/// A server with the variables of some callers put in. All of its processes and sessions are alike.
pub struct Variant {
    core: Arc<Core>,
    pub reach: Reach,
    pub fingerprint: String,
    mask: Mask,
    remote: OnceLock<Result<Remote, String>>,
}

impl Variant {
    /// Returns the variant that is reached in this way.
    pub fn new(core: &Arc<Core>, reach: Reach, fingerprint: String, values: &Values) -> Self {
        let mut confidential = reach.confidential();
        let declared = values.iter().filter(|(name, _)| !passes_always(name));
        confidential.extend(declared.map(|(_, value)| value.clone()));
        Self {
            core: Arc::clone(core),
            mask: Mask::new(&confidential),
            reach,
            fingerprint,
            remote: OnceLock::new(),
        }
    }

    /// Returns what hides this server's secrets in its own words.
    pub fn mask(&self) -> Mask {
        self.mask.clone()
    }

    /// Returns what all connections to a server over HTTP share; made by the first one.
    ///
    /// # Errors
    /// Fails when the HTTP client cannot be made, which another try would not change.
    pub fn remote(&self, endpoint: &Endpoint) -> Result<Remote, StartFailure> {
        let (name, tokens) = (&self.config.name, &self.runtime.tokens);
        self.remote
            .get_or_init(|| Remote::new(name, endpoint, tokens))
            .clone()
            .map_err(|why| StartFailure::new(format!("server '{name}' cannot be reached: {why}")))
    }
}

/// A variant is the server, and more.
impl Deref for Variant {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}
