//! `~/tools/`: listing, searching, contracts and authoring.

mod verb_page;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_catalog::listing::readiness_words;
use pentad_catalog::{Catalog, Gate, Listing, Resolution, SearchOptions, Visibility, unknown_tool};
use pentad_model::address::Family;
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::outcome::Product;
use pentad_model::verb::{Read, Write};
use pentad_model::{Address, GrantSet, Refusal, RefusalKind, Timestamp};
use pentad_program::{Durability, Environment, Readiness, Store, ToolAuthor};
use pentad_space::{AddressFamily, Scene};
use serde_json::{Value, json};

pub(crate) use self::verb_page::verb_contract;
use crate::invoke::store_refusal;

/// Serves `~/tools/` from the catalog and writes through the tool author.
pub struct ToolsFamily {
    catalog: Arc<Catalog>,
    author: Arc<dyn ToolAuthor>,
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
}

impl ToolsFamily {
    /// Returns the family.
    #[must_use]
    pub fn new(
        catalog: Arc<Catalog>,
        author: Arc<dyn ToolAuthor>,
        store: Arc<dyn Store>,
        gate: Arc<Gate>,
    ) -> Self {
        Self {
            catalog,
            author,
            store,
            gate,
        }
    }

    async fn visible(&self, scene: &Scene) -> Result<Visibility, Refusal> {
        let grants = match scene.run {
            None => GrantSet::everything(),
            Some(run) => self.store.run(run).await.map_err(|e| store_refusal(&e))?.grants,
        };
        let denied = self.gate.policy().denied_for(&scene.caller.actor);
        Ok(Visibility {
            denied,
            ..Visibility::of(grants)
        })
    }

    async fn list(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let environment = scene.attendance.environment.as_deref();
        let visible = self.visible(scene).await?;
        let source = read.options.text("source");
        match read.options.text("query") {
            Some(query) => self.search(query, read.options.limit(8), source, &visible),
            None => {
                let listing = match source {
                    None => self.catalog.list(&visible),
                    Some(source) => self.list_source(source, &visible, environment).await?,
                };
                Ok(Product::text(listing.to_markdown(), "~/tools/").value(json!(listing)))
            }
        }
    }

    fn search(
        &self,
        query: &str,
        limit: usize,
        source: Option<&str>,
        visible: &Visibility,
    ) -> Result<Product, Refusal> {
        let options = SearchOptions {
            limit,
            source: source.map(str::to_owned),
        };
        let found = self.catalog.search(query, &options, visible);
        Ok(Product::text(found.to_markdown(), "~/tools/").value(found.to_value()))
    }

    /// Lists one source. A server that was never seen is started for that, once, within its own limit.
    async fn list_source(
        &self,
        source: &str,
        visible: &Visibility,
        environment: Option<&Environment>,
    ) -> Result<Listing, Refusal> {
        let unseen = |listing: &Listing| {
            listing
                .sources
                .iter()
                .any(|s| s.status.readiness == Readiness::Configured && s.status.tools == 0)
        };
        if self
            .catalog
            .list_source(source, visible)
            .as_ref()
            .is_some_and(unseen)
        {
            let learned = self.catalog.refresh_source(source, environment).await;
            // What kept it from even being started is known to nobody else, and there is nothing else to show.
            if let (Err(refusal), Some(listing)) = (learned, self.catalog.list_source(source, visible))
                && unseen(&listing)
            {
                return Err(refusal);
            }
        }
        self.catalog.list_source(source, visible).ok_or_else(|| {
            let known = self
                .catalog
                .list(visible)
                .sources
                .into_iter()
                .map(|s| s.status.source);
            Refusal::new(
                RefusalKind::NotFound,
                source,
                format!("There is no source '{source}'."),
            )
            .supported(known)
        })
    }

    async fn one(&self, scene: &Scene, name: &str) -> Result<Product, Refusal> {
        let visible = self.visible(scene).await?;
        let environment = scene.attendance.environment.as_deref();
        if let Some(source) = name.strip_suffix('/') {
            match self.list_source(source, &visible, environment).await {
                Ok(listing) => {
                    let text = listing.to_markdown();
                    let address = format!("~/tools/{source}/");
                    return Ok(Product::text(text, address).value(json!(listing)));
                }
                Err(refusal) if refusal.kind != RefusalKind::NotFound => return Err(refusal),
                // It may be the name of a tool.
                Err(_) => {}
            }
        }
        let mut resolution = self.catalog.resolve(name, &visible);
        let mut learned = Ok(None);
        if let Resolution::SourceUnknownTools { source, .. } = &resolution {
            learned = self.catalog.refresh_source(source, environment).await;
            resolution = self.catalog.resolve(name, &visible);
        }
        match resolution {
            Resolution::Found(entry) => {
                let document = &entry.document;
                let cid = document.cid().unwrap_or_default();
                if scene.caller.actor.is_model() {
                    self.promote(scene, &document.tool.to_string(), &cid).await?;
                }
                let value = serde_json::to_value(&**document).unwrap_or(Value::Null);
                let text = self.catalog.contract(document, Some(&entry.source.status()));
                let product = Product {
                    contract: true,
                    ..Product::text(text, document.tool.address())
                };
                Ok(product.value(json!({"document": value, "cid": cid, "status": entry.source.status()})))
            }
            Resolution::Verb { verb, .. } => Ok(verb_contract(verb)),
            Resolution::Ambiguous(candidates) => {
                let message = format!("Several sources have a tool '{name}'; name one in full.");
                Err(Refusal::new(RefusalKind::Conflict, name, message)
                    .supported(candidates.iter().map(pentad_model::ToolRef::address)))
            }
            Resolution::Unknown { nearest } => Err(unknown_tool(name, &nearest)),
            Resolution::SourceUnknownTools { source, status } => {
                // What kept it from even being started is known to nobody else.
                if let (Readiness::Configured, Err(refusal)) = (&status.readiness, learned) {
                    return Err(refusal);
                }
                let state = readiness_words(&status.readiness);
                let message = format!("The tools of '{source}' are not known yet: {state}.");
                Err(Refusal::new(RefusalKind::Unavailable, name, message)
                    .next_step("pentad doctor shows why"))
            }
        }
    }

    async fn promote(&self, scene: &Scene, tool: &str, cid: &str) -> Result<(), Refusal> {
        let promoted = self
            .store
            .promoted(scene.thread)
            .await
            .map_err(|e| store_refusal(&e))?;
        if promoted.get(tool).is_some_and(|known| known == cid) {
            return Ok(());
        }
        let event = NewEvent {
            thread: scene.thread,
            at: Timestamp::now(),
            caller: scene.caller.clone(),
            call: None,
            run: scene.run,
            body: EventBody::Promoted {
                tool: tool.to_owned(),
                cid: cid.to_owned(),
            },
        };
        self.store
            .append(vec![event], Durability::Crash)
            .await
            .map(drop)
            .map_err(|e| store_refusal(&e))
    }
}

#[async_trait]
impl AddressFamily for ToolsFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::ToolList, Family::Tool]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        match &read.address {
            Address::Tools(Some(name)) => self.one(scene, name).await,
            _ => self.list(scene, read).await,
        }
    }

    async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        let Address::Tools(Some(name)) = &write.address else {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                "~/tools/",
                "Name the tool: ~/tools/<name>.",
            ));
        };
        let name = name.strip_prefix("recipes/").unwrap_or(name);
        let authored = if write.options.flag("delete") {
            self.author.delete(name, scene.dry_run).await?
        } else {
            let content = match (&write.content, write.options.object("tool")) {
                (Some(content), None) => content.clone(),
                (None, Some(tool)) => Value::Object(tool.clone()).to_string(),
                (Some(_), Some(_)) => {
                    let message = "Give the tool as content or as options.tool, not both.";
                    return Err(Refusal::new(RefusalKind::BadRequest, "tool", message));
                }
                (None, None) => {
                    return Err(Refusal::new(
                        RefusalKind::BadRequest,
                        "content",
                        "Writing a tool needs its document.",
                    )
                    .next_step("read ~/tools/write shows the format; options {\"delete\":true} deletes"));
                }
            };
            self.author.write(name, &content, scene.dry_run).await?
        };
        let address = format!(
            "~/tools/recipes/{}",
            pentad_model::address::encode_tool_name(&authored.name)
        );
        let value = json!({
            "name": authored.name,
            "address": address,
            "replaced": authored.replaced,
            "deleted": write.options.flag("delete"),
            "dryRun": scene.dry_run,
            "cid": authored.document.as_ref().and_then(|d| d.cid().ok()),
        });
        Ok(Product::text(authored.message, address).value(value))
    }
}
