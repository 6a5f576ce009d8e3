//! The seam of an address family.

use async_trait::async_trait;
use pentad_model::address::Family;
use pentad_model::options::{WRITABLE, form_name};
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::{Read, Write};

use crate::scene::Scene;

/// Serves the addresses of some families.
#[async_trait]
pub trait AddressFamily: Send + Sync {
    /// Returns the families it serves.
    fn families(&self) -> &'static [Family];

    /// Reads an address of these families.
    ///
    /// # Errors
    /// Refuses what is not there, not allowed or not readable, with the next step.
    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal>;

    /// Writes an address of these families.
    ///
    /// # Errors
    /// Refuses as `read` does; without an implementation, every write (405).
    async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        let _ = scene;
        let name = form_name(write.address.family());
        let message = format!("{name} cannot be written.");
        Err(
            Refusal::new(RefusalKind::NotSupported, write.address.to_string(), message)
                .supported(WRITABLE.iter().map(|family| form_name(*family))),
        )
    }
}
