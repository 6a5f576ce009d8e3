//! `https://…`: a page as Markdown, quoted as data.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::{Part, Product};
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::select::Selection;
use pentad_model::text::visible;
use pentad_model::verb::Read;
use pentad_program::Store;
use serde_json::{Map, Value, json};
use url::Url;

use super::misdirected;
use crate::attach::attach_bytes;
use crate::family::AddressFamily;
use crate::frame::frame;
use crate::kind::{is_textual, is_viewable_image};
use crate::limits::SpaceLimits;
use crate::present::select_limits;
use crate::scene::Scene;
use crate::select::{Selected, select};
use crate::show;
use crate::web::{PageText, WebClient, WebResponse, decode_body, read_page};

/// Serves `https://` and `http://`.
pub(crate) struct WebFamily {
    web: Arc<WebClient>,
    store: Arc<dyn Store>,
    limits: SpaceLimits,
}

impl WebFamily {
    pub(crate) fn new(web: Arc<WebClient>, store: Arc<dyn Store>, limits: SpaceLimits) -> Self {
        Self { web, store, limits }
    }
}

#[async_trait]
impl AddressFamily for WebFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Web]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let Address::Web(url) = &read.address else {
            return Err(misdirected(&read.address));
        };
        let selection = Selection::parse(&read.options)?;
        for resolver in &self.web.policy().page_resolvers {
            if let Some(product) = resolver.resolve(scene, url, &read.options).await? {
                return Ok(product);
            }
        }
        let limit = self.web.policy().page_limit;
        let raw = read.options.flag("raw");
        let page = Box::pin(self.page(scene, url, raw, &selection));
        match tokio::time::timeout(limit, page).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("{url} was not read within {} s.", limit.as_secs());
                Err(Refusal::new(RefusalKind::Timeout, url.as_str(), message)
                    .next_step("write ~/memory/<path> with options.fromUrl has more time"))
            }
        }
    }
}

/// What is known of an answer besides its body.
struct Answer {
    asked: Url,
    url: Url,
    status: u16,
    content_type: Option<String>,
    mime: String,
    announced: Option<u64>,
}

impl Answer {
    fn new(asked: &Url, response: &WebResponse) -> Self {
        Self {
            asked: asked.clone(),
            url: response.url().clone(),
            status: response.status(),
            content_type: response.content_type(),
            mime: response
                .mime()
                .unwrap_or_else(|| "application/octet-stream".to_owned()),
            announced: response.announced_bytes(),
        }
    }

    const fn failed(&self) -> bool {
        self.status >= 400
    }

    fn value(&self, scene: &Scene) -> Map<String, Value> {
        let mut value = Map::new();
        value.insert("address".to_owned(), json!(self.asked.as_str()));
        value.insert("url".to_owned(), json!(self.asked.as_str()));
        value.insert("finalUrl".to_owned(), json!(self.url.as_str()));
        value.insert("status".to_owned(), json!(self.status));
        value.insert("mimeType".to_owned(), json!(self.mime));
        value.insert("fetchedAt".to_owned(), json!(scene.now.to_string()));
        value
    }

    fn facts(&self, scene: &Scene, title: Option<&str>) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(title) = title.map(str::trim).filter(|title| !title.is_empty()) {
            facts.push(("Title", title.to_owned()));
        }
        facts.push(("Fetched", show::time(scene.now)));
        facts.push(("Type", self.mime.clone()));
        if self.url != self.asked {
            facts.push(("Redirected to", self.url.to_string()));
        }
        if self.status != 200 {
            facts.push(("HTTP status", self.status.to_string()));
        }
        facts
    }
}

impl WebFamily {
    async fn page(
        &self,
        scene: &Scene,
        url: &Url,
        raw: bool,
        selection: &Selection,
    ) -> Result<Product, Refusal> {
        let mut response = self.web.open(scene, url.clone()).await?;
        let answer = Answer::new(url, &response);
        let is_html = matches!(answer.mime.as_str(), "text/html" | "application/xhtml+xml");
        if is_html || is_textual(&answer.mime) {
            let cap = self.web.policy().body_bytes;
            let Some(body) = response.body(scene, cap).await? else {
                return Err(too_large(&answer, cap));
            };
            let text = decode_body(&body, answer.content_type.as_deref(), is_html);
            let page = if is_html && !raw {
                read_page(text, answer.url.as_str(), self.web.policy().convert_limit).await?
            } else {
                let source = if raw { "raw" } else { "text" };
                PageText {
                    title: None,
                    markdown: text,
                    source,
                }
            };
            return self.text(scene, &answer, &page, selection);
        }
        if is_viewable_image(&answer.mime)
            && !answer.failed()
            && let Some(body) = response.body(scene, self.limits.image_bytes).await?
        {
            return self.image(scene, &answer, body).await;
        }
        Ok(metadata(scene, &answer))
    }

    fn text(
        &self,
        scene: &Scene,
        answer: &Answer,
        page: &PageText,
        selection: &Selection,
    ) -> Result<Product, Refusal> {
        let body = visible(&page.markdown);
        let selected: Selected = select(body.as_bytes(), selection, select_limits(scene, &self.limits))
            .map_err(|error| error.refusal(answer.asked.as_str()))?;
        let total = (!selected.is_whole()).then_some((selected.total_bytes, selected.total_lines));
        let mut value = answer.value(scene);
        value.insert("title".to_owned(), json!(page.title));
        value.insert("source".to_owned(), json!(page.source));
        value.insert("content".to_owned(), json!(selected.text));
        value.insert("totalBytes".to_owned(), json!(selected.total_bytes));
        value.insert("totalLines".to_owned(), json!(selected.total_lines));
        if let Some(matched) = selected.matched {
            value.insert("matched".to_owned(), json!(matched));
            value.insert("matchedLines".to_owned(), json!(selected.matched_lines));
        }
        let facts = answer.facts(scene, page.title.as_deref());
        let text = frame(answer.url.as_str(), &facts, &selected.text);
        let mut product = Product::text(text, answer.asked.as_str()).value(Value::Object(value));
        product.failed = answer.failed();
        product.selected = true;
        product.total = total;
        Ok(product)
    }

    async fn image(&self, scene: &Scene, answer: &Answer, body: Vec<u8>) -> Result<Product, Refusal> {
        let name = answer
            .url
            .path_segments()
            .and_then(|mut segments| segments.next_back().map(str::to_owned));
        let data = STANDARD.encode(&body);
        let attached = attach_bytes(
            self.store.as_ref(),
            body.into(),
            name.as_deref(),
            self.limits.attachment_bytes,
            scene.now,
        )
        .await?;
        let text = format!(
            "{} is an image: {}, {}. It is kept as attachment:{}\n",
            show::code(answer.url.as_str()),
            attached.mime,
            show::size(attached.bytes),
            attached.cid
        );
        let mut value = answer.value(scene);
        value.insert("size".to_owned(), json!(attached.bytes));
        value.insert(
            "attachment".to_owned(),
            json!(format!("attachment:{}", attached.cid)),
        );
        let mut product = Product::text(text, answer.asked.as_str()).value(Value::Object(value));
        // What calls itself an image and is none stays an attachment without being shown.
        if is_viewable_image(&attached.mime) {
            product.parts.push(Part::Image {
                cid: attached.cid,
                mime: attached.mime,
                data: Some(data),
            });
        }
        Ok(product)
    }
}

fn too_large(answer: &Answer, cap: u64) -> Refusal {
    let message = format!(
        "{} is larger than the {} that a read takes.",
        answer.url,
        show::size(cap)
    );
    Refusal::new(RefusalKind::TooLarge, answer.asked.as_str(), message).next_step(keep(&answer.url))
}

fn keep(url: &Url) -> String {
    format!(
        "write {{\"address\":\"~/memory/downloads/\",\"options\":{{\"fromUrl\":\"{url}\"}}}} keeps it as a file"
    )
}

fn metadata(scene: &Scene, answer: &Answer) -> Product {
    let size = answer
        .announced
        .map_or_else(|| "size not announced".to_owned(), show::size);
    let mut text = format!(
        "{} is not text: {}, {size}",
        show::code(answer.url.as_str()),
        visible(&answer.mime)
    );
    if answer.status != 200 {
        text.push_str(&format!(", HTTP status {}", answer.status));
    }
    text.push_str(&format!(
        ". Its bytes are not shown.\nNext: {}\n",
        keep(&answer.url)
    ));
    let mut value = answer.value(scene);
    value.insert("size".to_owned(), json!(answer.announced));
    let mut product = Product::text(text, answer.asked.as_str()).value(Value::Object(value));
    product.failed = answer.failed();
    product
}
