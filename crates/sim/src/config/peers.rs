//! The links between devices, and the injected fault of peer access to pool memory.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// The link between two devices, which decides whether they can access each other's memory, and
/// the bandwidth of copies between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// NVLink: peer access with native atomics. The text is `nvlink`.
    #[default]
    NvLink,
    /// PCIe: peer access without native atomics. The text is `pcie`.
    Pcie,
    /// No peer access: the driver stages copies in host memory. The text is `none`.
    NoPeerAccess,
}

impl Link {
    const ALL: [(&'static str, Self); 3] = [
        ("nvlink", Self::NvLink),
        ("pcie", Self::Pcie),
        ("none", Self::NoPeerAccess),
    ];

    /// Returns whether the devices can access each other's memory.
    pub(crate) fn is_peer(self) -> bool {
        self != Self::NoPeerAccess
    }

    /// Returns the link's performance rank, as `cuDeviceGetP2PAttribute` does: lower is faster.
    pub(crate) fn performance_rank(self) -> i32 {
        match self {
            Self::NvLink => 0,
            Self::Pcie => 1,
            Self::NoPeerAccess => 2,
        }
    }
}

/// The link of each pair of devices; set by [`SimConfig::links`](crate::SimConfig::links). By
/// default every pair is linked by [NVLink](Link::NvLink). A link has both directions.
///
/// The text form is a list of groups separated by `;`, each a link and the pairs that it joins:
/// `nvlink:0-1+2-3;pcie`. A group without pairs is the last one and joins all other pairs; without
/// such a group they have no peer access.
///
/// ```
/// use millstream_sim::{Link, Links};
/// let links: Links = "nvlink:0-1+2-3;pcie".parse().unwrap();
/// assert_eq!(links.between(3, 2), Link::NvLink);
/// assert_eq!(links.between(0, 2), Link::Pcie);
/// assert_eq!(links, Links::all(Link::Pcie).pair(0, 1, Link::NvLink).pair(2, 3, Link::NvLink));
/// assert_eq!(links.to_string(), "nvlink:0-1+2-3;pcie");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Links {
    /// The pairs with a link other than `others`, the lower device first.
    pairs: BTreeMap<(u32, u32), Link>,
    /// The link of all other pairs.
    others: Link,
}

impl Links {
    /// Creates links that join every pair of devices by `link`.
    pub fn all(link: Link) -> Self {
        Self {
            pairs: BTreeMap::new(),
            others: link,
        }
    }

    /// Sets the link of two devices, given by their indices from 0.
    ///
    /// # Panics
    ///
    /// Panics if both are the same device.
    pub fn pair(mut self, one: u32, other: u32, link: Link) -> Self {
        assert_ne!(one, other, "a link joins two devices");
        let pair = ordered(one, other);
        if link == self.others {
            self.pairs.remove(&pair);
        } else {
            self.pairs.insert(pair, link);
        }
        self
    }

    /// Returns the link of two devices, given by their indices from 0.
    #[must_use]
    pub fn between(&self, one: u32, other: u32) -> Link {
        let pair = self.pairs.get(&ordered(one, other));
        pair.copied().unwrap_or(self.others)
    }

    pub(crate) fn highest_device(&self) -> Option<u32> {
        self.pairs.keys().map(|&(_, higher)| higher).max()
    }
}

/// Returns the pair with the lower device first.
fn ordered(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

impl fmt::Display for Links {
    /// Writes the text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, link) in Link::ALL {
            let mut separator = ':';
            for ((one, other), _) in self.pairs.iter().filter(|(_, of)| **of == link) {
                if separator == ':' {
                    f.write_str(name)?;
                }
                write!(f, "{separator}{one}-{other}")?;
                separator = '+';
            }
            if separator == '+' {
                f.write_str(";")?;
            }
        }
        let others = Link::ALL.iter().find(|(_, link)| *link == self.others);
        f.write_str(others.map_or("", |(name, _)| name))
    }
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pairs = BTreeMap::new();
        let mut others = None;
        for group in text.split(';') {
            if others.is_some() {
                return Err(format!(
                    "`{group}` follows a link without pairs; put that last"
                ));
            }
            let (name, list) = match group.split_once(':') {
                Some((name, list)) => (name, Some(list)),
                None => (group, None),
            };
            let known = Link::ALL.iter().find(|(known, _)| *known == name);
            let (_, link) = known.ok_or_else(|| {
                format!("there is no link `{name}`; the links are nvlink, pcie, none")
            })?;
            let Some(list) = list else {
                others = Some(*link);
                continue;
            };
            for pair in list.split('+') {
                let (one, other) = parse_pair(pair)?;
                if pairs.insert(ordered(one, other), *link).is_some() {
                    return Err(format!("the pair {pair} is given twice"));
                }
            }
        }
        let mut links = Self::all(others.unwrap_or(Link::NoPeerAccess));
        for ((one, other), link) in pairs {
            links = links.pair(one, other, link);
        }
        Ok(links)
    }
}

/// Parses a pair of different devices, such as `0-1`.
fn parse_pair(text: &str) -> Result<(u32, u32), String> {
    let parse = || {
        let (one, other) = text.split_once('-')?;
        Some((one.parse().ok()?, other.parse().ok()?))
    };
    match parse() {
        Some((one, other)) if one != other => Ok((one, other)),
        _ => Err(format!("`{text}` is not a pair of devices such as 0-1")),
    }
}

/// The behaviour of accesses to another device's pool memory after the pool has given access (rule
/// 38); set by [`SimConfig::peer_pool`](crate::SimConfig::peer_pool).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerPool {
    /// Accesses work, as on an H200 with driver 580.
    #[default]
    Observed,
    /// A defect of some drivers: kernels and copies read zeros and write nothing, without an error.
    /// Copies without access, which the driver stages, work.
    Zeros,
}

impl FromStr for PeerPool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "observed" => Ok(Self::Observed),
            "zeros" => Ok(Self::Zeros),
            _ => Err(format!(
                "peer_pool={text} is invalid; use `observed` or `zeros`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_round_trip_through_text() {
        for text in [
            "nvlink",
            "none",
            "pcie:0-1;nvlink",
            "nvlink:0-1+2-3;pcie",
            "nvlink:0-1;pcie:0-2+1-63;none",
        ] {
            let links: Links = text.parse().unwrap();
            assert_eq!(links.to_string(), text);
        }
        let left_out: Links = "nvlink:1-0".parse().unwrap();
        assert_eq!(left_out.to_string(), "nvlink:0-1;none");
        assert_eq!(left_out.between(0, 2), Link::NoPeerAccess);
        assert_eq!(Links::default().to_string(), "nvlink");
    }

    #[test]
    fn invalid_links_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("", "no link ``"),
            ("sli", "no link `sli`"),
            ("nvlink:", "not a pair"),
            ("nvlink:0", "not a pair"),
            ("nvlink:1-1", "not a pair"),
            ("nvlink:0-1+1-0", "twice"),
            ("nvlink:0-1;pcie:0-1", "twice"),
            ("pcie;nvlink:0-1", "put that last"),
        ] {
            let error = text.parse::<Links>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
