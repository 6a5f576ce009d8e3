//! `file:<path>`: files of the machine, below the workspace and what was granted.

mod forbidden;
mod locate;
mod read;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::verb::{Read, Write};
use pentad_program::Store;

pub(crate) use self::forbidden::Forbidden;
use super::misdirected;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;

/// Serves `file:`.
pub(crate) struct FileFamily {
    store: Arc<dyn Store>,
    forbidden: Forbidden,
    limits: SpaceLimits,
}

impl FileFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, forbidden: Forbidden, limits: SpaceLimits) -> Self {
        Self {
            store,
            forbidden,
            limits,
        }
    }
}

#[async_trait]
impl AddressFamily for FileFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::File]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        read::read(self, scene, path_of(&read.address)?, &read.options).await
    }

    async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        write::write(self, scene, path_of(&write.address)?, write).await
    }
}

fn path_of(address: &Address) -> Result<&str, Refusal> {
    match address {
        Address::File(path) => Ok(path),
        other => Err(misdirected(other)),
    }
}
