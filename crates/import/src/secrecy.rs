//! Which parts of a value are secret: by the name it stands under, and by what it looks like.

use std::ops::Range;

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under<'n> {
    /// An environment variable, a header, or an option of a command, by its name.
    Name(&'n str),
    /// Nothing that says what it is.
    Nothing,
}

/// A secret part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its place, in bytes.
    pub range: Range<usize>,
    /// A word that tells it from others, from names only and never from the value.
    pub hint: Option<String>,
}

/// Shortest text that is taken for a secret by its looks.
const MIN_SHAPE_BYTES: usize = 16;
/// Shortest text of mixed characters that is taken for a secret.
const MIN_MIXED_BYTES: usize = 24;
/// Shortest hexadecimal text that is taken for a secret.
const MIN_HEX_BYTES: usize = 32;

/// The beginnings that issuers give their keys.
const PREFIXES: [&str; 28] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "npm_",
    "pypi-",
    "lin_api_",
    "ntn_",
    "secret_",
    "dop_v1_",
    "figd_",
    "tvly-",
];

/// Words before a secret in a header.
const SCHEMES: [&str; 6] = ["Bearer ", "bearer ", "Basic ", "Token ", "token ", "Bot "];

/// Finds the secret parts of a literal, in order and without overlap.
#[must_use]
pub fn find(under: Under<'_>, text: &str) -> Vec<Secret> {
    if let Under::Name(name) = under
        && is_secret_name(name)
        && let Some(range) = whole(text)
    {
        return vec![Secret { range, hint: None }];
    }
    if let Some((name, value)) = assignment(text) {
        let start = text.len() - value.len();
        return find(Under::Name(name), value)
            .into_iter()
            .map(|found| Secret {
                range: found.range.start + start..found.range.end + start,
                hint: found
                    .hint
                    .or_else(|| Some(name.trim_start_matches('-').to_owned())),
            })
            .collect();
    }
    let in_url = url_parts(text);
    if !in_url.is_empty() || text.contains("://") {
        return in_url;
    }
    let rest = after_scheme(text);
    if rest.trim() == rest && has_secret_shape(rest) {
        let start = text.len() - rest.len();
        return vec![Secret {
            range: start..text.len(),
            hint: None,
        }];
    }
    Vec::new()
}

/// Tells whether what stands under `name` is a secret whatever it looks like.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let has = |word: &str| words.iter().any(|w| w == word);
    let last = words.last().map_or("", String::as_str);
    if matches!(
        last,
        "file" | "path" | "dir" | "url" | "uri" | "id" | "name" | "type" | "limit" | "ttl" | "helper"
    ) {
        return false;
    }
    const ANYWHERE: [&str; 12] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "credential",
        "credentials",
        "authorization",
        "cookie",
        "bearer",
        "pat",
    ];
    const LAST: [&str; 5] = ["key", "auth", "pass", "pwd", "dsn"];
    ANYWHERE.iter().any(|word| has(word)) || (LAST.contains(&last) && !has("public"))
}

/// Cuts a name into lower-case words at marks and where capitals begin.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let begins = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
        if begins {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the secret part of a value whose name says that it is one; nothing for switches and counts.
fn whole(text: &str) -> Option<Range<usize>> {
    let rest = after_scheme(text);
    let plain = rest.trim().is_empty()
        || matches!(rest, "true" | "false" | "none" | "null" | "yes" | "no")
        || (rest.len() <= 5 && rest.bytes().all(|b| b.is_ascii_digit()));
    (!plain).then(|| text.len() - rest.len()..text.len())
}

fn after_scheme(text: &str) -> &str {
    let found = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    found.unwrap_or(text)
}

/// Reads `NAME=value`, `--option=value` and `Header: value`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !name.is_empty()
            && name.len() <= 64
            && name.chars().all(legal)
            && name.contains(|c: char| c.is_ascii_alphabetic())
    };
    let equals = text.split_once('=').filter(|(name, _)| is_name(name));
    equals.or_else(|| {
        let (name, value) = text.split_once(':').filter(|(name, _)| is_name(name))?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        (!value.starts_with('/')).then_some((name, value))
    })
}

/// Finds passwords, keys in queries, and keys in paths of a URL.
fn url_parts(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let Some((scheme, rest)) = text.split_once("://") else {
        return found;
    };
    let base = scheme.len() + 3;
    let (address, query) = rest.split_once('?').map_or((rest, None), |(a, q)| (a, Some(q)));
    let (authority, path) = address
        .split_once('/')
        .map_or((address, None), |(a, p)| (a, Some(p)));
    if let Some((userinfo, _)) = authority.rsplit_once('@') {
        let range = match userinfo.split_once(':') {
            Some((user, password)) if !password.is_empty() => {
                let start = base + user.len() + 1;
                Some(start..start + password.len())
            }
            Some(_) => None,
            None => has_secret_shape(userinfo).then_some(base..base + userinfo.len()),
        };
        let hint = Some("password".to_owned());
        found.extend(range.map(|range| Secret { range, hint }));
    }
    let mut at = base + authority.len() + 1;
    for segment in path.into_iter().flat_map(|path| path.split('/')) {
        if has_secret_shape(segment) {
            found.push(Secret {
                range: at..at + segment.len(),
                hint: Some("path".to_owned()),
            });
        }
        at += segment.len() + 1;
    }
    let mut at = base + address.len() + 1;
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        if let Some((name, value)) = pair.split_once('=')
            && !value.is_empty()
            && (is_secret_name(name) || has_secret_shape(value))
        {
            let start = at + name.len() + 1;
            found.push(Secret {
                range: start..start + value.len(),
                hint: Some(name.to_owned()),
            });
        }
        at += pair.len() + 1;
    }
    found
}

/// Tells whether a text looks like a key: an issuer's beginning, a token of three parts, or characters without order.
fn has_secret_shape(text: &str) -> bool {
    if text.len() < MIN_SHAPE_BYTES || text.contains(char::is_whitespace) {
        return false;
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '=' | '.' | '~');
    if !text.chars().all(legal) {
        return false;
    }
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return true;
    }
    if text.starts_with("eyJ") && text.matches('.').count() == 2 {
        return true;
    }
    if text.len() >= MIN_HEX_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return true;
    }
    let has = |test: fn(&char) -> bool| text.chars().any(|c| test(&c));
    let mixed = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    let like_a_path = text.starts_with(['/', '.', '~', '-']) || text.matches('/').count() > 2;
    mixed && !like_a_path && text.len() >= MIN_MIXED_BYTES && entropy(text) >= 3.8
}

/// Returns the bits that one character of `text` carries.
#[allow(clippy::cast_precision_loss)] // texts are short
fn entropy(text: &str) -> f64 {
    let mut counts = [0_usize; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = text.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| *count as f64 / total)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts<'t>(under: Under<'_>, text: &'t str) -> Vec<&'t str> {
        find(under, text)
            .iter()
            .map(|found| text.get(found.range.clone()).unwrap())
            .collect()
    }

    #[test]
    fn names_tell_secrets_from_settings() {
        for name in [
            "GITHUB_TOKEN",
            "apiKey",
            "X-Api-Key",
            "OPENAI_API_KEY",
            "Authorization",
            "DB_PASSWORD",
            "SECRET",
            "GITLAB_PAT",
            "AWS_SECRET_ACCESS_KEY",
            "--api-key",
            "SENTRY_DSN",
            "GITHUB_PERSONAL_ACCESS_TOKEN",
            "NPM_AUTH",
        ] {
            assert!(is_secret_name(name), "{name}");
            assert_eq!(parts(Under::Name(name), "hunter2"), ["hunter2"], "{name}");
        }
        for name in [
            "MAX_TOKENS",
            "TOKEN_FILE",
            "KEYBOARD",
            "NODE_ENV",
            "PATH",
            "AWS_ACCESS_KEY_ID",
            "PUBLIC_KEY",
            "COMPAT",
            "AUTHOR",
            "BYPASS_CACHE",
            "TOKEN_LIMIT",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
        for value in ["", "true", "4096", " "] {
            assert!(find(Under::Name("TOKEN"), value).is_empty(), "{value}");
        }
    }

    #[test]
    fn schemes_options_and_headers_keep_what_is_not_secret() {
        assert_eq!(parts(Under::Name("Authorization"), "Bearer abc"), ["abc"]);
        assert_eq!(parts(Under::Nothing, "Authorization: Bearer abc"), ["abc"]);
        assert_eq!(parts(Under::Nothing, "Authorization:Bearer abc"), ["abc"]);
        assert_eq!(parts(Under::Nothing, "--api-key=abc"), ["abc"]);
        assert_eq!(parts(Under::Nothing, "API_KEY=abc"), ["abc"]);
        assert_eq!(
            find(Under::Nothing, "--api-key=abc")[0].hint.as_deref(),
            Some("api-key")
        );
        for plain in [
            "--port=8080",
            "-y",
            "@modelcontextprotocol/server-sequential-thinking",
            "mcp-server-2024-11-05",
            "stdio",
            "/Users/ada/Documents/Projects2024/Some-Long-Folder",
            "C:\\x",
            "mcp-remote@latest",
            "https://example.org/v1/mcp?mode=full",
            "NODE_ENV=production",
            "ghcr.io/github/github-mcp-server",
        ] {
            assert!(
                find(Under::Nothing, plain).is_empty(),
                "{plain} {:?}",
                parts(Under::Nothing, plain)
            );
        }
    }

    #[test]
    fn shapes_and_urls_are_seen_under_any_name() {
        for key in [
            "ghp_0123456789abcdefghij",
            "sk-proj-0123456789abcdef",
            "xoxb-1234567890-abcdefghij",
            "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
            "0123456789abcdef0123456789abcdef",
            "Zx81kQp0Lm4Vt7RbY2nWc6HdJ3sG",
        ] {
            assert_eq!(parts(Under::Name("THING"), key), [key]);
        }
        assert_eq!(
            parts(Under::Name("DATABASE_URL"), "postgres://ada:hunter2@db/x"),
            ["hunter2"]
        );
        assert_eq!(
            parts(Under::Nothing, "--db=postgres://ada:hunter2@db/x"),
            ["hunter2"]
        );
        assert_eq!(
            parts(
                Under::Nothing,
                "https://u:p@example.org/s/Zx81kQp0Lm4Vt7RbY2nWc6HdJ3sG/mcp?a=1&api_key=k&b=2"
            ),
            ["p", "Zx81kQp0Lm4Vt7RbY2nWc6HdJ3sG", "k"]
        );
    }

    proptest! {
        #[test]
        fn places_are_in_order_and_on_characters(text in "[a-z=:/@?&.é \\-]{0,60}", name in "[A-Z_]{0,12}") {
            let mut at = 0;
            for found in find(Under::Name(&name), &text) {
                prop_assert!(found.range.start >= at && text.get(found.range.clone()).is_some());
                at = found.range.end;
            }
        }

        #[test]
        fn a_secret_under_its_name_is_always_found(value in "[!-~]{6,40}") {
            prop_assume!(!matches!(value.as_str(), "true" | "false"));
            let found = find(Under::Name("API_TOKEN"), &value);
            prop_assert_eq!(found.len(), 1);
        }
    }
}
