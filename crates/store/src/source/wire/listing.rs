//! Checks each page of an object listing before object_store reads it.
//!
//! object_store takes a page without a continuation token for the last page, even if the page says that the
//! listing is truncated. A server that sends no such token, for instance because it supports only version 1
//! of S3's list request, would silently make a data set smaller. This module accepts a page only if it says
//! whether more pages follow.

use http::Uri;

/// The kind of a list request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// `ListObjectsV2` of S3, which Google's XML interface has too.
    Objects,
    /// `List Blobs` of Azure.
    Blobs,
}

impl Listing {
    /// The kind of a list request; `None` for any other request.
    pub(super) fn parse(uri: &Uri) -> Option<Self> {
        uri.query()?.split('&').find_map(|field| match field {
            "list-type=2" => Some(Listing::Objects),
            "comp=list" => Some(Listing::Blobs),
            _ => None,
        })
    }

    /// Checks that a page is complete, and that the page says whether another one follows. The error is a
    /// clause with the reason why the page is refused.
    pub(super) fn check(self, page: &[u8]) -> Result<(), &'static str> {
        let page = String::from_utf8_lossy(page);
        let root = match self {
            Listing::Objects => "ListBucketResult",
            Listing::Blobs => "EnumerationResults",
        };
        let is_whole = page.trim_end().strip_suffix('>').is_some_and(|page| page.trim_end().ends_with(root));
        if !is_whole {
            return Err("the store's listing is cut off, or not a listing");
        }
        if self == Listing::Blobs {
            // In Azure's listings only `NextMarker` shows whether the listing continues; on the last page it
            // is empty.
            return element(&page, "NextMarker")
                .map(|_| ())
                .ok_or("the store's listing does not say whether it is complete");
        }
        if element(&page, "EncodingType").is_some_and(|encoding| !encoding.is_empty()) {
            return Err("the store encodes the keys of its listing, which was not requested");
        }
        let token = element(&page, "NextContinuationToken").unwrap_or_default();
        match element(&page, "IsTruncated").map(str::to_ascii_lowercase).as_deref() {
            Some("false") => Ok(()),
            Some("true") if !token.is_empty() => Ok(()),
            Some("true") => Err("the store's listing is truncated, without a token to continue"),
            // Emulators that send a listing as one page state its `KeyCount`, but no `MaxKeys`.
            None if token.is_empty()
                && element(&page, "KeyCount").is_some()
                && element(&page, "MaxKeys").is_none() =>
            {
                Ok(())
            }
            _ => Err("the store's listing does not say whether it is complete"),
        }
    }
}

/// The text of the first XML element with this name. In XML a `<` always begins a tag, so each `<` of the
/// page is tried.
fn element<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    page.match_indices('<').find_map(|(at, _)| {
        let (tag, text) = page[at + 1..].split_once('>')?;
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let tag = tag.split_ascii_whitespace().next()?;
        let tag = tag.split_once(':').map_or(tag, |(_, tag)| tag);
        let text = if is_empty { "" } else { text.split('<').next().unwrap_or_default() };
        (tag == name).then(|| text.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(content: &str) -> Result<(), &'static str> {
        Listing::Objects.check(
            format!("<?xml version=\"1.0\"?>\n<ListBucketResult>{content}</ListBucketResult>\n").as_bytes(),
        )
    }

    #[test]
    fn a_request_for_a_list_is_known_by_its_query() {
        let of = |uri: &str| Listing::parse(&uri.parse().unwrap());
        assert_eq!(of("http://h/b?continuation-token=x&list-type=2&prefix=a"), Some(Listing::Objects));
        assert_eq!(of("http://h/c?restype=container&comp=list"), Some(Listing::Blobs));
        assert_eq!(of("http://h/b/key?prefix=list-type=2"), None);
        assert_eq!(of("http://h/b/key"), None);
    }

    #[test]
    fn a_list_is_over_or_goes_on_only_if_it_says_so() {
        let token = "<NextContinuationToken>t</NextContinuationToken>";
        let key = "<Contents><Key>a</Key></Contents>";
        assert!(objects(&format!("{key}<IsTruncated>false</IsTruncated>")).is_ok());
        assert!(objects(&format!("<IsTruncated> True </IsTruncated>{token}")).is_ok());
        assert!(objects("<s3:IsTruncated>false</s3:IsTruncated>").is_ok());
        assert!(objects(&format!("{key}<KeyCount>1</KeyCount>")).is_ok());
        assert!(objects(&format!("{key}<KeyCount>1</KeyCount><MaxKeys>1</MaxKeys>")).is_err());
        for half in [
            "<IsTruncated>true</IsTruncated>",
            "<IsTruncated>true</IsTruncated><NextContinuationToken/>",
            "<IsTruncated>true</IsTruncated><NextMarker>a</NextMarker>",
            "<Key>IsTruncated>false</Key>",
            "<IsTruncated/>",
            token,
            key,
            "",
            "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>",
        ] {
            assert!(objects(half).is_err(), "{half}");
        }
        for other in
            ["", "<html><body>log in</body></html>", "<ListBucketResult><IsTruncated>false</IsTruncated>"]
        {
            assert!(Listing::Objects.check(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn a_list_of_azure_says_with_its_marker_whether_it_goes_on() {
        let blobs = |content: &str| {
            Listing::Blobs.check(format!("<EnumerationResults>{content}</EnumerationResults>").as_bytes())
        };
        assert!(blobs("<Blobs/><NextMarker />").is_ok());
        assert!(blobs("<Blobs/><NextMarker>x</NextMarker>").is_ok());
        assert!(blobs("<Blobs/>").is_err());
        assert!(Listing::Blobs.check(b"<EnumerationResults><NextMarker/>").is_err());
    }
}
