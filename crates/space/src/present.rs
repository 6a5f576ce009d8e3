//! From an opened file to what a caller sees: text in parts, an image, or what is known about the rest.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pentad_model::Timestamp;
use pentad_model::outcome::{Part, Product};
use pentad_model::refusal::Refusal;
use pentad_model::select::Selection;
use pentad_program::Store;
use serde_json::{Map, Value, json};

use crate::attach::attach_bytes;
use crate::kind::{is_text_head, is_textual, is_viewable_image, media_type};
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::select::{SelectLimits, Selected, select_file};
use crate::show;
use crate::trouble::from_io;

/// Bytes at the beginning of a file that decide what it is.
const HEAD: usize = 32 << 10;

/// What is known about a file before it is looked into.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// The address under which it is read.
    pub(crate) address: String,
    /// Its name, whose ending may tell its type.
    pub(crate) name: Option<String>,
    /// When it was last changed.
    pub(crate) modified: Option<Timestamp>,
    /// Its type, when its record says so.
    pub(crate) mime: Option<String>,
    /// Text only where every byte is UTF-8 without NUL; otherwise the beginning decides.
    pub(crate) strict: bool,
    /// Keys for the structured result.
    pub(crate) extra: Map<String, Value>,
}

impl About {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            name: None,
            modified: None,
            mime: None,
            strict: false,
            extra: Map::new(),
        }
    }
}

/// What a file turned out to be.
#[derive(Debug)]
pub(crate) struct Examined {
    about: About,
    mime: String,
    size: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Text(Selected),
    Image(Bytes),
    Other,
}

/// Returns the limits of a selection for a scene.
pub(crate) fn select_limits(scene: &Scene, limits: &SpaceLimits) -> SelectLimits {
    SelectLimits {
        text_bytes: limits.text_bytes,
        line_bytes: limits.line_bytes,
        numbered: scene.caller.actor.is_model(),
        cancel: scene.attendance.cancel.clone(),
    }
}

/// Looks into an open file; blocking.
pub(crate) fn examine(
    mut file: File,
    about: About,
    selection: &Selection,
    limits: &SelectLimits,
    image_bytes: u64,
) -> Result<Examined, Refusal> {
    let failed = |error: &std::io::Error, about: &About| from_io(&about.address, error);
    let size = file.metadata().map_err(|error| failed(&error, &about))?.len();
    let mut head = Vec::new();
    file.by_ref()
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|error| failed(&error, &about))?;
    let mime = match about.mime.clone() {
        Some(mime) if mime != "application/octet-stream" => mime,
        _ => media_type(&head, about.name.as_deref()),
    };
    file.seek(SeekFrom::Start(0))
        .map_err(|error| failed(&error, &about))?;
    let body = if is_viewable_image(&mime) && size <= image_bytes {
        let mut bytes = Vec::new();
        file.take(image_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| failed(&error, &about))?;
        if bytes.len() as u64 > image_bytes {
            Body::Other
        } else {
            Body::Image(bytes.into())
        }
    } else if is_text_head(&head) && !is_viewable_image(&mime) {
        let selected =
            select_file(file, size, selection, limits).map_err(|error| error.refusal(&about.address))?;
        if about.strict && !selected.is_text {
            Body::Other
        } else {
            Body::Text(selected)
        }
    } else {
        Body::Other
    };
    let mime = match &body {
        Body::Other if is_textual(&mime) => "application/octet-stream".to_owned(),
        _ => mime,
    };
    Ok(Examined {
        about,
        mime,
        size,
        body,
    })
}

/// Opens a file of the store's own and looks into it; blocking.
pub(crate) fn examine_path(
    path: &PathBuf,
    about: About,
    selection: &Selection,
    limits: &SelectLimits,
    image_bytes: u64,
) -> Result<Examined, Refusal> {
    let file = File::open(path).map_err(|error| from_io(&about.address, &error))?;
    examine(file, about, selection, limits, image_bytes)
}

impl Examined {
    /// Turns it into a product; an image is attached, so that its address lasts.
    pub(crate) async fn product(
        self,
        store: &dyn Store,
        scene: &Scene,
        limits: &SpaceLimits,
    ) -> Result<Product, Refusal> {
        let mut value = self.about.extra.clone();
        value.insert("address".to_owned(), json!(self.about.address));
        value.insert("size".to_owned(), json!(self.size));
        if let Some(modified) = self.about.modified {
            value.insert("updatedAt".to_owned(), json!(modified.to_string()));
        }
        value.insert("mimeType".to_owned(), json!(self.mime));
        match self.body {
            Body::Text(selected) => Ok(text_product(self.about.address, value, selected)),
            Body::Image(bytes) => {
                let name = self.about.name.as_deref();
                let attached =
                    attach_bytes(store, bytes.clone(), name, limits.attachment_bytes, scene.now).await?;
                value.insert(
                    "attachment".to_owned(),
                    json!(format!("attachment:{}", attached.cid)),
                );
                let text = format!(
                    "{} is an image: {}, {}. It is kept as attachment:{}\n",
                    show::code(&self.about.address),
                    self.mime,
                    show::size(self.size),
                    attached.cid
                );
                let mut product = Product::text(text, self.about.address).value(Value::Object(value));
                product.parts.push(Part::Image {
                    cid: attached.cid,
                    mime: self.mime,
                    data: Some(STANDARD.encode(&bytes)),
                });
                Ok(product)
            }
            Body::Other => {
                let reason = if is_viewable_image(&self.mime) {
                    format!(
                        "an image larger than the {} that are shown",
                        show::size(limits.image_bytes)
                    )
                } else {
                    "not text".to_owned()
                };
                value.insert("reason".to_owned(), json!(reason));
                let changed = self
                    .about
                    .modified
                    .map_or_else(String::new, |at| format!(", changed {}", show::time(at)));
                let text = format!(
                    "{} is {reason}: {}, {}{changed}. Its bytes are not shown.\n\
                     Next: a tool that takes the file's path or address can work on it; read ~/tools/ with \
                     options.query finds one.\n",
                    show::code(&self.about.address),
                    self.mime,
                    show::size(self.size),
                );
                Ok(Product::text(text, self.about.address).value(Value::Object(value)))
            }
        }
    }
}

/// Returns the product of a selected part of a text.
pub(crate) fn text_product(address: String, mut value: Map<String, Value>, selected: Selected) -> Product {
    value.insert("encoding".to_owned(), json!("utf8"));
    value.insert("content".to_owned(), json!(selected.text));
    value.insert("totalBytes".to_owned(), json!(selected.total_bytes));
    value.insert("totalLines".to_owned(), json!(selected.total_lines));
    value.insert("shownBytes".to_owned(), json!(selected.shown_bytes));
    if let Some(matched) = selected.matched {
        value.insert("matched".to_owned(), json!(matched));
        value.insert("matchedLines".to_owned(), json!(selected.matched_lines));
    }
    let total = (!selected.is_whole()).then_some((selected.total_bytes, selected.total_lines));
    let mut product = Product::text(selected.text, address).value(Value::Object(value));
    product.total = total;
    product.selected = true;
    product
}
