//! The devices whose streams have used an allocation.

use super::DeviceNumber;

/// The devices of the tickets in an access history. Usually there is one, so that no ticket needs
/// to be asked for its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Users {
    #[default]
    None,
    /// All tickets are of this device.
    One(DeviceNumber),
    Several,
}

impl Users {
    /// Notes a ticket of this device. Returns whether all tickets are of it.
    #[inline(always)]
    pub(super) fn is_only(&mut self, device: DeviceNumber) -> bool {
        *self == Self::One(device) || self.note(device)
    }

    #[cold]
    fn note(&mut self, device: DeviceNumber) -> bool {
        *self = match self {
            Self::None => Self::One(device),
            Self::One(_) | Self::Several => Self::Several,
        };
        *self != Self::Several
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_the_only_user_until_another_is_noted() {
        let [one, other] = [(); 2].map(|()| DeviceNumber::next());
        let mut users = Users::default();
        assert!(users.is_only(one) && users.is_only(one));
        assert!(!users.is_only(other));
        assert!(
            !users.is_only(one),
            "the other's tickets may still be there"
        );
    }
}
