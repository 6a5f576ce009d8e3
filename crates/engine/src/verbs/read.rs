//! `read`: one address, through its family.

use std::sync::Arc;

use pentad_model::Refusal;
use pentad_model::outcome::Product;
use pentad_model::verb::Read;

use crate::Engine;
use crate::acts::Access;
use crate::invoke::Context;

pub(crate) async fn read(engine: &Arc<Engine>, context: &Context, read: &Read) -> Result<Product, Refusal> {
    let scene = engine.admit(context, Access::Read(&read.address), None).await?;
    let mut product = engine
        .within(context, engine.parts.space.read(&scene, read))
        .await?;
    if product.address.is_empty() {
        product.address = read.address.to_string();
    }
    Ok(product)
}
