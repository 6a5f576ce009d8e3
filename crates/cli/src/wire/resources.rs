//! `mcp:<server>/<uri>`: resources of connected servers.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_mcp::{ConnectedServer, ResourceRead};
use pentad_model::address::Family;
use pentad_model::outcome::{Part, Product};
use pentad_model::text::visible;
use pentad_model::verb::Read;
use pentad_model::{Address, Refusal, RefusalKind};
use pentad_program::{Content, Store, ToolFailure};
use pentad_space::{AddressFamily, Scene, attach_bytes, frame};
use serde_json::json;

use super::servers::Servers;

/// Serves resources through the servers that have them.
pub struct Resources {
    pub servers: Arc<Servers>,
    pub store: Arc<dyn Store>,
    pub attachment_bytes: u64,
}

impl Resources {
    fn server(&self, name: &str) -> Result<Arc<ConnectedServer>, Refusal> {
        self.servers.get(name).ok_or_else(|| {
            Refusal::new(
                RefusalKind::NotFound,
                name,
                format!("There is no connected server '{}'.", visible(name)),
            )
            .supported(self.servers.names())
        })
    }

    async fn product(
        &self,
        scene: &Scene,
        address: &str,
        contents: Vec<Content>,
    ) -> Result<Product, Refusal> {
        let mut product = Product::text(String::new(), address);
        let mut kinds = Vec::new();
        for content in contents {
            let (mime, data, is_text) = match content {
                Content::Text(text) => (None, text.into_bytes(), true),
                Content::Resource { mime, data, text, .. } => (mime, data, text),
                Content::Image { mime, data } | Content::Audio { mime, data } => (Some(mime), data, false),
                Content::Link { uri, .. } => (None, uri.into_bytes(), true),
            };
            kinds.push(json!({"mime": mime, "bytes": data.len(), "text": is_text}));
            if is_text {
                product.text.push_str(&visible(&String::from_utf8_lossy(&data)));
                continue;
            }
            let kept =
                attach_bytes(&*self.store, data.into(), None, self.attachment_bytes, scene.now).await?;
            let mime = mime.unwrap_or(kept.mime);
            product.text.push_str(&format!(
                "[{mime}, {} bytes: attachment:{}]\n",
                kept.bytes, kept.cid
            ));
            product.parts.push(Part::Link {
                address: format!("attachment:{}", kept.cid),
                title: None,
            });
        }
        product.text = frame(address, &[], &product.text);
        Ok(product.value(json!({"address": address, "contents": kinds})))
    }
}

#[async_trait]
impl AddressFamily for Resources {
    fn families(&self) -> &'static [Family] {
        &[Family::Mcp]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let Address::Mcp { server, uri } = &read.address else {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                read.address.to_string(),
                "This is no resource.",
            ));
        };
        let address = read.address.to_string();
        let asked = ResourceRead {
            uri: uri.clone(),
            thread: scene.thread,
            cwd: scene.workspace.cwd.clone(),
            time_limit: None,
            attendance: scene.attendance.clone(),
        };
        match self.server(server)?.read_resource(asked).await {
            Ok(contents) => self.product(scene, &address, contents).await,
            Err(ToolFailure::Refused(refusal)) => Err(refusal),
            Err(failure) => {
                let text = visible(&failure.to_string());
                Err(Refusal::new(
                    RefusalKind::Unavailable,
                    address,
                    format!("The resource was not read: {text}."),
                ))
            }
        }
    }
}
