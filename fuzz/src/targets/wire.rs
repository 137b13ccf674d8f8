//! Views and representations of every protocol, on the same bytes.
//!
//! 1. No view, getter or iterator panics.
//! 2. A representation is the same after it is written and read again.

use thalweg_packet::wire::{
    ArpRepr, ArpView, EthernetRepr, EthernetView, ExtensionView, FrameType, GeneveRepr, GeneveView,
    Icmpv4Repr, Icmpv4View, Icmpv6Repr, Icmpv6View, IpProtocol, Ipv4Repr, Ipv4View,
    Ipv6FragmentRepr, Ipv6FragmentView, Ipv6Repr, Ipv6View, LabelStack, LlcRepr, LlcView, MplsRepr,
    MplsView, NeighborRepr, NeighborView, SctpRepr, SctpView, TcpOptions, TcpRepr, TcpView,
    UdpRepr, UdpView, VlanRepr, VlanView, VxlanRepr, VxlanView, walk_extensions,
};

/// Reads, writes and reads again; the space after the header stands for the payload.
macro_rules! round_trip {
    ($view:ident, $repr:ident, $input:expr) => {
        round_trip!($view, $repr, $input, $input.len())
    };
    ($view:ident, $repr:ident, $input:expr, $room:expr) => {
        if let Ok(view) = $view::new_checked($input)
            && let Ok(repr) = $repr::parse(&view)
        {
            let mut written = vec![0; repr.buffer_len() + $room];
            repr.emit(&mut written);
            let view = $view::new_checked(&written).expect("what was written can be viewed");
            let again = $repr::parse(&view).expect("what was written can be parsed");
            assert_eq!(again, repr, "{} did not round-trip", stringify!($repr));
        }
    };
}

/// Runs one input.
pub fn run(input: &[u8]) {
    round_trip!(EthernetView, EthernetRepr, input);
    round_trip!(LlcView, LlcRepr, input);
    round_trip!(VlanView, VlanRepr, input);
    round_trip!(MplsView, MplsRepr, input);
    round_trip!(ArpView, ArpRepr, input);
    round_trip!(Ipv4View, Ipv4Repr, input);
    round_trip!(Ipv6View, Ipv6Repr, input);
    round_trip!(Ipv6FragmentView, Ipv6FragmentRepr, input);
    round_trip!(Icmpv4View, Icmpv4Repr, input);
    round_trip!(Icmpv6View, Icmpv6Repr, input);
    // Options fill the rest, and zeros are not an option.
    round_trip!(NeighborView, NeighborRepr, input, 0);
    round_trip!(TcpView, TcpRepr, input);
    round_trip!(UdpView, UdpRepr, input);
    round_trip!(SctpView, SctpRepr, input);
    round_trip!(VxlanView, VxlanRepr, input);
    round_trip!(GeneveView, GeneveRepr, input);
    walk(input);
}

/// Iterates over everything that is not read directly: chains, stacks and options.
fn walk(input: &[u8]) {
    let bound = input.len() + 1;
    assert!(
        LabelStack::new(input).take(bound).count() < bound,
        "labels without end"
    );
    assert!(
        TcpOptions::new(input).take(bound).count() < bound,
        "TCP options without end"
    );
    // A refusal is a valid result.
    let _ = FrameType::parse(input);
    if let Ok(view) = GeneveView::new_checked(input) {
        assert!(
            view.options().take(bound).count() < bound,
            "Geneve options without end"
        );
    }
    let views = [
        Ipv6View::new_checked(input),
        Ipv6View::new_header_checked(input),
    ];
    for view in views.into_iter().flatten() {
        let _ = (walk_extensions(&view), view.payload(), view.packet());
    }
    if let Ok(view) = Ipv4View::new_header_checked(input) {
        let _ = (view.payload(), view.options(), view.has_valid_checksum());
    }
    if let Ok(view) = UdpView::new_header_checked(input) {
        let _ = view.payload();
    }
    for kind in [0, 43, 44, 51, 60, 135] {
        if let Ok(view) = ExtensionView::new_checked(IpProtocol(kind), input) {
            let _ = (view.body(), view.payload(), view.next_header());
        }
    }
}
