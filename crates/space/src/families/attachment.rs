//! `attachment:<cid>`: a file kept by its content.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::select::Selection;
use pentad_model::verb::Read;
use pentad_program::Store;
use serde_json::json;

use super::misdirected;
use crate::attach::blob_of;
use crate::blocking::blocking;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::present::{About, examine_path, select_limits};
use crate::scene::Scene;
use crate::trouble::from_store;

/// Serves `attachment:<cid>`.
pub(crate) struct AttachmentFamily {
    store: Arc<dyn Store>,
    limits: SpaceLimits,
}

impl AttachmentFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, limits: SpaceLimits) -> Self {
        Self { store, limits }
    }
}

#[async_trait]
impl AddressFamily for AttachmentFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Attachment]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let Address::Attachment(cid) = &read.address else {
            return Err(misdirected(&read.address));
        };
        let subject = format!("attachment:{cid}");
        let blob = blob_of(cid)?;
        let attachment = self
            .store
            .attachment(cid)
            .await
            .map_err(|error| from_store(&subject, &error))?;
        let path = self
            .store
            .blob_path(&blob)
            .await
            .map_err(|error| from_store(&subject, &error))?;
        let selection = Selection::parse(&read.options)?;
        let mut about = About::new(subject);
        about.name = attachment.name.clone();
        about.modified = Some(attachment.created_at);
        about.mime = Some(attachment.mime);
        about.extra.insert("cid".to_owned(), json!(cid));
        about.extra.insert("name".to_owned(), json!(attachment.name));
        let (select, limits) = (select_limits(scene, &self.limits), self.limits);
        let examined =
            blocking(move || examine_path(&path, about, &selection, &select, limits.image_bytes)).await?;
        examined.product(self.store.as_ref(), scene, &self.limits).await
    }
}
