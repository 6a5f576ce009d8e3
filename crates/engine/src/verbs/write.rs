//! `write`: one address, through its family.

use std::sync::Arc;

use pentad_model::event::EventBody;
use pentad_model::outcome::Product;
use pentad_model::verb::Write;
use pentad_model::{Address, Refusal};
use pentad_program::Durability;
use serde_json::{Map, json};

use crate::Engine;
use crate::acts::{Access, hash_of};
use crate::invoke::{Context, store_refusal};

pub(crate) async fn write(
    engine: &Arc<Engine>,
    context: &Context,
    write: &Write,
) -> Result<Product, Refusal> {
    let mut what = Map::from_iter([
        ("content".to_owned(), json!(write.content)),
        ("delete".to_owned(), json!(write.options.flag("delete"))),
        ("fromUrl".to_owned(), json!(write.options.text("fromUrl"))),
        (
            "fromAttachment".to_owned(),
            json!(write.options.text("fromAttachment")),
        ),
        ("tool".to_owned(), json!(write.options.object("tool"))),
    ]);
    if matches!(write.address, Address::Run(..)) {
        what.extend(write.options.given());
    }
    let access = if write.dry_run {
        Access::DryRun(&write.address)
    } else {
        Access::Write(&write.address)
    };
    let mut scene = engine.admit(context, access, Some(&what)).await?;
    scene.dry_run = write.dry_run;
    if !write.dry_run {
        let closure = hash_of(Some(&what))?;
        let intent = EventBody::Intent {
            act: format!("write:{}", write.address),
            closure,
        };
        let event = context.event(None, intent);
        engine
            .parts
            .store
            .append(vec![event], Durability::Power)
            .await
            .map_err(|e| store_refusal(&e))?;
    }
    engine
        .within(context, engine.parts.space.write(&scene, write))
        .await
}
