//! What is written down about a request: only headers of this list, never a query, never a body.

use axum::http::HeaderMap;

/// The headers that may be logged. Everything else may carry a secret under any name.
const LISTED: [&str; 4] = ["content-type", "content-length", "user-agent", "accept"];
const VALUE_BYTES: usize = 120;

/// Returns the listed headers as one text.
pub(crate) fn listed_headers(headers: &HeaderMap) -> String {
    LISTED
        .iter()
        .filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?;
            Some(format!(
                "{name}={:?}",
                pentad_model::text::excerpt(value, VALUE_BYTES)
            ))
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_only_listed_headers_are_logged() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "x-api-key",
            "mcp-session-id",
            "cookie",
            "x-secret",
            "referer",
            "user-agent",
        ] {
            headers.insert(name, "canary".parse().unwrap());
        }
        headers.insert("content-type", "application/json".parse().unwrap());
        assert_eq!(
            listed_headers(&headers),
            "content-type=\"application/json\" user-agent=\"canary\""
        );
    }
}
