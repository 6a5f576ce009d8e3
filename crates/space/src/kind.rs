//! What a file is: by its content first, by its name second.

/// Media types of images that models look at.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the media type of a file that begins with `head` and is called `name`.
///
/// Content decides where it is unmistakable; the name refines texts and unknown bytes.
pub(crate) fn media_type(head: &[u8], name: Option<&str>) -> String {
    if let Some(found) = infer::get(head).filter(|found| !found.mime_type().starts_with("text/")) {
        return found.mime_type().to_owned();
    }
    // An image by its name alone is none: its content would have said so.
    let by_name = name
        .and_then(|name| mime_guess::from_path(name).first())
        .filter(|mime| !is_viewable_image(mime.essence_str()));
    let textual = is_text_head(head);
    match by_name {
        Some(mime) if textual == is_textual(mime.essence_str()) => mime.essence_str().to_owned(),
        // A name such as `video.ts` promises what the content does not keep.
        _ if textual => "text/plain".to_owned(),
        Some(mime) if !is_textual(mime.essence_str()) => mime.essence_str().to_owned(),
        _ => "application/octet-stream".to_owned(),
    }
}

/// Tells whether a model can look at an image of this type.
pub(crate) fn is_viewable_image(mime: &str) -> bool {
    IMAGES.contains(&mime)
}

/// Tells whether a media type is text.
pub(crate) fn is_textual(mime: &str) -> bool {
    let plain = mime.split(';').next().unwrap_or(mime).trim();
    plain.starts_with("text/")
        || plain.ends_with("+json")
        || plain.ends_with("+xml")
        || matches!(
            plain,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/ecmascript"
                | "application/toml"
                | "application/x-toml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/x-sh"
                | "application/sql"
                | "application/x-sql"
                | "application/x-ndjson"
                | "application/jsonl"
                | "application/graphql"
                | "application/x-httpd-php"
                | "application/x-perl"
                | "application/x-tex"
                | "application/rtf"
        )
}

/// Tells whether the beginning of a file looks like text: UTF-8 up to a cut character, without NUL.
pub(crate) fn is_text_head(head: &[u8]) -> bool {
    if head.contains(&0) {
        return false;
    }
    match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && head.len() - error.valid_up_to() < 4 && head.len() > 4,
    }
}

/// Returns the usual extension of a media type, with its dot.
pub(crate) fn extension(mime: &str) -> Option<String> {
    let plain = mime.split(';').next().unwrap_or(mime).trim().to_ascii_lowercase();
    let known = match plain.as_str() {
        "text/html" => "html",
        "text/markdown" => "md",
        "text/plain" => "txt",
        "text/csv" => "csv",
        "text/xml" | "application/xml" => "xml",
        "application/json" => "json",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/gzip" => "gz",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/svg+xml" => "svg",
        "audio/mpeg" => "mp3",
        "video/mp4" => "mp4",
        "application/octet-stream" | "" => return None,
        other => {
            return mime_guess::get_mime_extensions_str(other)
                .and_then(|list| list.first())
                .map(|extension| format!(".{extension}"));
        }
    };
    Some(format!(".{known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_goes_before_the_name() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        assert_eq!(media_type(png, Some("notes.txt")), "image/png");
        assert_eq!(media_type(b"plain", Some("photo.png")), "text/plain");
        assert_eq!(media_type(b"{}", Some("a.json")), "application/json");
        assert_eq!(media_type(b"fn main() {}", Some("a.rs")), "text/x-rust");
        assert_eq!(
            media_type(b"\0\x01", Some("photo.png")),
            "application/octet-stream"
        );
        assert_eq!(media_type(b"", Some("empty.md")), "text/markdown");
        assert_eq!(media_type(b"export const x = 1", Some("x.ts")), "text/plain");
    }
}
