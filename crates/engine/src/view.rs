//! What a caller sees of a result: bounded, head and tail, with the address that reads the rest.

use pentad_model::Refusal;
use pentad_model::outcome::{Omitted, Product};
use pentad_model::select::Selection;
use pentad_model::text::{prefix, suffix};
use pentad_space::{SelectLimits, select};

/// Contracts have a limit of their own: a schema that is cut is worse than none.
pub(crate) const CONTRACT_BYTES: usize = 24 * 1024;
/// Largest structured result that goes to a model beside the text.
pub(crate) const SMALL_VALUE_BYTES: usize = 2 * 1024;
/// Bytes kept free for the notice about what was left out.
const NOTICE_BYTES: usize = 320;

/// Applies the wanted selection and the caller's limit.
///
/// # Errors
/// Refuses a malformed regular expression.
pub(crate) fn bounded(
    product: &Product,
    selection: &Selection,
    limit: usize,
) -> Result<(String, Option<Omitted>), Refusal> {
    let limit = if product.contract {
        limit.max(CONTRACT_BYTES)
    } else {
        limit
    };
    let (text, total) = if selection.is_whole() || product.selected {
        (product.text.clone(), product.total)
    } else {
        let source = std::io::Cursor::new(product.text.as_bytes());
        let limits = SelectLimits::of_bytes(limit.max(product.text.len()));
        let selected = select(source, selection, &limits).map_err(|e| e.refusal(&product.address))?;
        (selected.text, Some((selected.total_bytes, selected.total_lines)))
    };
    if text.len() <= limit {
        let omitted = total
            .filter(|(bytes, _)| *bytes > text.len() as u64)
            .map(|(bytes, lines)| Omitted {
                shown_bytes: text.len() as u64,
                total_bytes: bytes,
                total_lines: lines,
                address: product.address.clone(),
            });
        return Ok((text, omitted));
    }
    let total = total.unwrap_or_else(|| (text.len() as u64, text.lines().count() as u64));
    Ok(cut(&text, total, product, limit))
}

/// Keeps a head and a tail. After a failure the tail, where errors stand, gets the larger share.
fn cut(text: &str, (bytes, lines): (u64, u64), product: &Product, limit: usize) -> (String, Option<Omitted>) {
    let room = limit.saturating_sub(NOTICE_BYTES);
    let tail_share = if product.failed { room * 3 / 4 } else { room / 4 };
    let head = whole_lines_head(prefix(text, room - tail_share));
    let tail = whole_lines_tail(suffix(text, tail_share));
    let shown = head.len() + tail.len();
    let first_line = head.lines().count() + 1;
    let rest = if product.address.is_empty() {
        "repeat the call with a narrower request".to_owned()
    } else {
        format!(
            "read {{\"address\":\"{}\",\"options\":{{\"lines\":\"{first_line}-\"}}}}, or with bytes or grep",
            product.address
        )
    };
    let notice = format!(
        "\n[… {} of {bytes} bytes ({lines} lines) left out; to see them: {rest} …]\n",
        bytes - (shown as u64).min(bytes)
    );
    let omitted = Omitted {
        shown_bytes: shown as u64,
        total_bytes: bytes,
        total_lines: lines,
        address: product.address.clone(),
    };
    (format!("{head}{notice}{tail}"), Some(omitted))
}

/// Ends at a line's end unless that would lose more than a quarter.
fn whole_lines_head(head: &str) -> &str {
    match head.rfind('\n') {
        Some(at) if at >= head.len() - head.len() / 4 => prefix(head, at + 1),
        _ => head,
    }
}

/// Starts at a line's beginning unless that would lose more than a quarter.
fn whole_lines_tail(tail: &str) -> &str {
    match tail.find('\n') {
        Some(at) if at <= tail.len() / 4 => suffix(tail, tail.len() - at - 1),
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(failed: bool) -> Product {
        let text: String = (1..=400).map(|n| format!("line {n} ä\n")).collect();
        Product {
            failed,
            ..Product::text(text, "run:x/output")
        }
    }

    #[test]
    fn o05_a_cut_result_says_how_much_and_how_to_read_the_rest() {
        let (text, omitted) = bounded(&long(false), &Selection::default(), 1024).unwrap();
        assert!(text.len() <= 1024);
        let omitted = omitted.unwrap();
        assert_eq!(
            (omitted.total_bytes, omitted.total_lines),
            (long(false).text.len() as u64, 400)
        );
        insta::assert_snapshot!(text.lines().find(|l| l.contains("left out")).unwrap());
        assert!(text.starts_with("line 1 ä\n") && text.ends_with("line 400 ä\n"));
    }

    #[test]
    fn o06_after_a_failure_the_tail_share_grows() {
        let tail = |failed| {
            let (text, _) = bounded(&long(failed), &Selection::default(), 1024).unwrap();
            text.split("…]\n").nth(1).unwrap().len()
        };
        assert!(tail(true) > 2 * tail(false));
    }

    proptest! {
        #[test]
        fn o09_limits_are_bytes_and_never_split_a_character(text in "[a-z\\n😀é]{0,3000}", limit in 400_usize..2000) {
            let (view, omitted) = bounded(&Product::text(text.clone(), "file:x"), &Selection::default(), limit).unwrap();
            prop_assert!(view.len() <= limit);
            prop_assert_eq!(omitted.is_some(), text.len() > limit);
        }
    }
}
