//! `thread:` and `thread:<id>`: conversations.

mod list;
mod one;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::verb::Read;
use pentad_program::Store;

use super::misdirected;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;

/// Serves `thread:` and `thread:<id>`.
pub(crate) struct ThreadFamily {
    store: Arc<dyn Store>,
    limits: SpaceLimits,
}

impl ThreadFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, limits: SpaceLimits) -> Self {
        Self { store, limits }
    }
}

#[async_trait]
impl AddressFamily for ThreadFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::ThreadList, Family::Thread]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        match &read.address {
            Address::Thread(None) => list::read(self.store.as_ref(), scene, &read.options).await,
            Address::Thread(Some(ending)) => {
                one::read(
                    self.store.as_ref(),
                    ending,
                    &read.options,
                    self.limits.scan_events,
                )
                .await
            }
            other => Err(misdirected(other)),
        }
    }
}
