//! `mcp:<server>/<uri>`: resources and prompts of connected servers.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_mcp::{Asking, ConnectedServer, Offers, ResourceOffer, ResourceRead};
use pentad_model::address::Family;
use pentad_model::outcome::{Part, Product};
use pentad_model::text::{excerpt, visible};
use pentad_model::verb::Read;
use pentad_model::{Address, Refusal, RefusalKind};
use pentad_program::{Content, Store, ToolFailure};
use pentad_space::{AddressFamily, Scene, attach_bytes, frame};
use serde_json::{Value, json};

use super::servers::Servers;

/// Serves resources and prompts through the servers that have them.
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

    async fn list(&self, scene: &Scene, server: &str, address: &str) -> Result<Product, Refusal> {
        let offers = self
            .server(server)?
            .offers(&asking(scene))
            .await
            .map_err(|failure| refused(failure, address))?;
        let value = json!({
            "resources": offers.resources.iter().map(|r| offer(server, r)).collect::<Vec<_>>(),
            "templates": offers.templates.iter().map(|r| offer(server, r)).collect::<Vec<_>>(),
            "prompts": offers.prompts.iter().map(|p| json!({
                "address": format!("mcp:{server}/{PROMPTS}{}", p.name),
                "description": p.description,
                "arguments": p.arguments.iter().map(|a| json!({"name": a.name, "required": a.required})).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        });
        Ok(Product::text(frame(address, &[], &listing(server, &offers)), address).value(value))
    }

    async fn prompt(&self, scene: &Scene, server: &str, name: &str, read: &Read) -> Result<Product, Refusal> {
        let address = read.address.to_string();
        let arguments = read.options.object("arguments").cloned().unwrap_or_default();
        let filled = self
            .server(server)?
            .fill_prompt(name, arguments, &asking(scene))
            .await
            .map_err(|failure| refused(failure, &address))?;
        let mut contents = Vec::new();
        for (speaker, content) in filled.messages {
            contents.push(Content::Text(format!("\n## {speaker}\n\n")));
            contents.push(content);
            contents.push(Content::Text("\n".to_owned()));
        }
        self.product(scene, &address, contents).await
    }
}

/// What the addresses of prompts begin with; addresses of resources have a scheme there.
const PROMPTS: &str = "prompts/";

fn asking(scene: &Scene) -> Asking {
    Asking {
        thread: scene.thread,
        cwd: scene.workspace.cwd.clone(),
        time_limit: None,
        attendance: scene.attendance.clone(),
    }
}

fn refused(failure: ToolFailure, address: &str) -> Refusal {
    match failure {
        ToolFailure::Refused(refusal) => refusal,
        failure => {
            let text = visible(&failure.to_string());
            Refusal::new(
                RefusalKind::Unavailable,
                address,
                format!("It was not read: {text}."),
            )
            .next_step("read mcp:<server>/ lists what a server offers besides tools")
        }
    }
}

fn offer(server: &str, offer: &ResourceOffer) -> Value {
    json!({"address": format!("mcp:{server}/{}", offer.uri), "name": offer.name, "mime": offer.mime})
}

/// Returns the list as text: one line an entry, the address first.
fn listing(server: &str, offers: &Offers) -> String {
    let mut text = String::new();
    for (title, entries) in [("Resources", &offers.resources), ("Templates", &offers.templates)] {
        if entries.is_empty() {
            continue;
        }
        text.push_str(&format!("## {title}\n"));
        for entry in entries {
            let about = match entry.description.as_str() {
                "" => &entry.name,
                description => description,
            };
            text.push_str(&format!("mcp:{server}/{} – {}\n", entry.uri, one_line(about)));
        }
    }
    if !offers.prompts.is_empty() {
        text.push_str("## Prompts\n");
    }
    for prompt in &offers.prompts {
        let arguments: Vec<String> = prompt
            .arguments
            .iter()
            .map(|a| {
                if a.required {
                    a.name.clone()
                } else {
                    format!("{}?", a.name)
                }
            })
            .collect();
        let takes = match arguments.is_empty() {
            true => String::new(),
            false => format!(" (options.arguments: {})", arguments.join(", ")),
        };
        let about = one_line(&prompt.description);
        text.push_str(&format!(
            "mcp:{server}/{PROMPTS}{}{takes} – {about}\n",
            prompt.name
        ));
    }
    for list in &offers.cut {
        text.push_str(&format!("The list of {list} is longer than what is shown.\n"));
    }
    if text.is_empty() {
        text.push_str("The server offers nothing besides its tools.\n");
    }
    text
}

fn one_line(text: &str) -> String {
    excerpt(&text.replace('\n', " "), 300)
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
        if let Some(name) = uri.strip_prefix(PROMPTS).filter(|name| !name.is_empty()) {
            return self.prompt(scene, server, name, read).await;
        }
        if read.options.object("arguments").is_some() {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                "arguments",
                "Only prompts take arguments.",
            )
            .next_step(format!("read mcp:{server}/ lists the prompts of the server")));
        }
        if uri.is_empty() || uri == PROMPTS {
            return self.list(scene, server, &address).await;
        }
        let asked = ResourceRead {
            uri: uri.clone(),
            thread: scene.thread,
            cwd: scene.workspace.cwd.clone(),
            time_limit: None,
            attendance: scene.attendance.clone(),
        };
        match self.server(server)?.read_resource(asked).await {
            Ok(contents) => self.product(scene, &address, contents).await,
            Err(failure) => Err(refused(failure, &address)),
        }
    }
}
