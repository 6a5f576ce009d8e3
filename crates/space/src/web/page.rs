//! From a body to text: its characters, its readable part, its Markdown.

use std::sync::Arc;
use std::time::Duration;

use dom_smoothie::{Config, Readability};
use pentad_model::refusal::{Refusal, RefusalKind};
use tokio::sync::{Semaphore, oneshot};

/// Deepest nesting of elements that is parsed; the converters walk the tree recursively.
const MAX_DEPTH: usize = 800;
/// Most elements that the search for the readable part looks at.
const MAX_ELEMENTS: usize = 200_000;
/// Stack of the converting thread: far more than `MAX_DEPTH` levels need.
const STACK_BYTES: usize = 64 << 20;
/// A readable part shorter than this is no article; the whole page is converted then.
const MIN_READABLE: usize = 200;
/// Pages that are converted at the same time.
static CONVERTING: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(2)));

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageText {
    pub(crate) title: Option<String>,
    pub(crate) markdown: String,
    /// `readable`, `whole` or `stripped`.
    pub(crate) source: &'static str,
}

/// Decodes a body by its declared or announced character set; UTF-8 without one.
pub(crate) fn decode_body(body: &[u8], content_type: Option<&str>, html: bool) -> String {
    let label = content_type
        .and_then(|whole| {
            whole.split(';').skip(1).find_map(|parameter| {
                let (key, value) = parameter.split_once('=')?;
                key.trim()
                    .eq_ignore_ascii_case("charset")
                    .then(|| value.trim().trim_matches('"').to_owned())
            })
        })
        .or_else(|| html.then(|| meta_charset(body)).flatten());
    let encoding = label
        .and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()))
        .unwrap_or(encoding_rs::UTF_8);
    encoding.decode(body).0.into_owned()
}

/// Finds `charset=` in the first kilobyte of a page.
fn meta_charset(body: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(body.get(..body.len().min(1024)).unwrap_or(&[])).to_ascii_lowercase();
    let (_, after) = head.split_once("charset=")?;
    let label: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_:.".contains(*c))
        .collect();
    (!label.is_empty()).then_some(label)
}

/// Turns HTML into Markdown on a thread of its own, within a limit.
///
/// # Errors
/// Refuses when the limit is reached or the converter gave up; the thread then ends by itself, and no more than two
/// of them ever run.
pub(crate) async fn read_page(html: String, url: &str, limit: Duration) -> Result<PageText, Refusal> {
    let refuse = |kind: RefusalKind, what: &str| {
        Refusal::new(kind, url, format!("{url} {what}.")).next_step(
            "options.raw true returns the page as it is; write ~/memory/<path> with options.fromUrl keeps it",
        )
    };
    let too_slow = || {
        let what = format!("took more than {} s to convert", limit.as_secs());
        refuse(RefusalKind::Timeout, &what)
    };
    let until = tokio::time::Instant::now() + limit;
    let permit = tokio::time::timeout_at(until, Arc::clone(&CONVERTING).acquire_owned())
        .await
        .map_err(|_| too_slow())?
        .map_err(|_| refuse(RefusalKind::Internal, "cannot be converted now"))?;
    let (sender, receiver) = oneshot::channel();
    let address = url.to_owned();
    let work = move || {
        let _permit = permit;
        // Nobody listens any more when the limit was reached.
        let _ = sender.send(convert(&html, &address));
    };
    std::thread::Builder::new()
        .name("page".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|_| refuse(RefusalKind::Unavailable, "cannot be converted now"))?;
    match tokio::time::timeout_at(until, receiver).await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(_)) => Err(refuse(RefusalKind::Internal, "could not be converted")),
        Err(_) => Err(too_slow()),
    }
}

fn convert(html: &str, url: &str) -> PageText {
    if is_too_deep(html) {
        return PageText {
            title: None,
            markdown: strip(html),
            source: "stripped",
        };
    }
    let config = Config {
        max_elements_to_parse: MAX_ELEMENTS,
        disable_json_ld: true,
        ..Config::default()
    };
    let article = Readability::new(html, Some(url), Some(config)).and_then(|mut reader| {
        let title = reader.get_article_title().to_string();
        reader.parse().map(|article| (title, article))
    });
    let mut title = None;
    if let Ok((page_title, article)) = article {
        title = Some(if article.title.is_empty() {
            page_title
        } else {
            article.title
        });
        if article.length >= MIN_READABLE
            && let Some(markdown) = markdown(&article.content)
        {
            return PageText {
                title,
                markdown,
                source: "readable",
            };
        }
    }
    markdown(html).map_or_else(
        || PageText {
            title: None,
            markdown: strip(html),
            source: "stripped",
        },
        |markdown| PageText {
            title,
            markdown,
            source: "whole",
        },
    )
}

fn markdown(html: &str) -> Option<String> {
    let skipped = vec![
        "script", "style", "noscript", "iframe", "svg", "template", "head", "canvas", "object",
    ];
    let converter = htmd::HtmlToMarkdown::builder().skip_tags(skipped).build();
    let text = converter.convert(html).ok()?;
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Elements that never nest in themselves: an unclosed one ends where the next begins.
const FLAT: [&str; 24] = [
    "p", "li", "td", "tr", "th", "dt", "dd", "option", "tbody", "thead", "tfoot", "colgroup", "area", "base",
    "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr",
];

/// Tells whether elements nest so deeply that walking them would be dangerous; counts tags, parses nothing.
fn is_too_deep(html: &str) -> bool {
    let mut depth = 0_usize;
    for piece in html.split('<').skip(1) {
        let closing = piece.starts_with('/');
        let name: String = piece
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .take(16)
            .collect::<String>()
            .to_ascii_lowercase();
        if name.is_empty() || FLAT.contains(&name.as_str()) {
            continue;
        }
        if closing {
            depth = depth.saturating_sub(1);
        } else if !piece.split('>').next().unwrap_or("").ends_with('/') {
            depth += 1;
            if depth > MAX_DEPTH {
                return true;
            }
        }
    }
    false
}

/// Drops tags, scripts and styles; for pages that no converter should see.
fn strip(html: &str) -> String {
    let mut out = String::new();
    let mut skipping: Option<&'static str> = None;
    for (index, piece) in html.split('<').enumerate() {
        let (tag, text) = if index == 0 {
            ("", piece)
        } else {
            piece.split_once('>').unwrap_or((piece, ""))
        };
        let lower: String = tag.chars().take(8).collect::<String>().to_ascii_lowercase();
        match skipping {
            Some(end) if lower.starts_with(end) => skipping = None,
            Some(_) => continue,
            None if lower.starts_with("script") => skipping = Some("/script"),
            None if lower.starts_with("style") => skipping = Some("/style"),
            None => {}
        }
        if skipping.is_none() {
            out.push(' ');
            out.push_str(text);
        }
    }
    let lines: Vec<String> = out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_pages_are_stripped_instead_of_walked() {
        let deep = format!("{}hello{}", "<div>".repeat(200_000), "</div>".repeat(200_000));
        let page = convert(&deep, "https://a.example/");
        assert_eq!((page.source, page.markdown.as_str()), ("stripped", "hello"));
        let flat = "<p>word <br> <li>x".repeat(5_000);
        assert!(!is_too_deep(&flat));
    }

    #[test]
    fn character_sets_come_from_the_header_or_the_page() {
        let latin = b"caf\xe9";
        assert_eq!(
            decode_body(latin, Some("text/plain; charset=ISO-8859-1"), false),
            "café"
        );
        let page = b"<meta charset=\"windows-1252\"><p>caf\xe9";
        assert!(decode_body(page, Some("text/html"), true).ends_with("café"));
        assert_eq!(decode_body("naïve".as_bytes(), None, true), "naïve");
    }
}
