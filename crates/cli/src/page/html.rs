//! Escapes text for a page of HTML.

/// `text` as the content of an element or of a quoted attribute. Characters that would reorder the text or
/// break its line are escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in forebay_base::error::escaped(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Makes JSON safe inside a script element, which would end at the first `</script`, even inside a string.
pub(crate) fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_element() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(escaped("a\u{202e}<"), "a\\u{202e}&lt;");
        let json = script_safe("{\"at\": \"</script><script>\"}");
        assert!(!json.contains('<'));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["at"], "</script><script>");
    }
}
