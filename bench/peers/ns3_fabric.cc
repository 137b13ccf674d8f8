// FT8-10K without a virtual network in ns-3: the fat tree, queues and TCP of
// crates/fabric's `Config::artifact`, flows from a file, and what they came to.
//
//   ns3_fabric FLOWS        lines of: source server, destination server, start in ns, bytes
//
// Prints one JSON object. See README.md for what is measured.

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

using namespace ns3;

namespace {

constexpr uint32_t PODS = 8, TORS = 4, SPINES = 4, CORE_LINKS = 4, SERVERS = 4;
constexpr uint16_t PORT = 5001;
constexpr uint32_t SEGMENT = 1024;

struct Flow {
  uint32_t source, destination;
  int64_t start_ns;
  uint64_t bytes;
  uint64_t sent = 0;
  int64_t first_ns = -1, last_ns = -1, first_received_ns = -1;
  Ptr<Socket> socket;
};

std::vector<Flow> flows;
std::map<std::pair<uint32_t, uint16_t>, uint32_t> flow_of_client;
uint64_t hops = 0, packets = 0;
NodeContainer servers, tors, spines, cores;
std::vector<Ipv4Address> addresses;

void Sent(uint32_t flow, Ptr<const Packet>, const TcpHeader &, Ptr<const TcpSocketBase>) {
  packets++;
  if (flows[flow].first_ns < 0) flows[flow].first_ns = Simulator::Now().GetNanoSeconds();
}

void Answered(Ptr<const Packet>, const TcpHeader &, Ptr<const TcpSocketBase>) { packets++; }

void Note(Flow &flow) {
  flow.last_ns = Simulator::Now().GetNanoSeconds();
  if (flow.first_received_ns < 0) flow.first_received_ns = flow.last_ns;
}

void Received(uint32_t flow, Ptr<const Packet>, const TcpHeader &, Ptr<const TcpSocketBase>) {
  Note(flows[flow]);
}

void ReceivedAtServer(Ptr<const Packet>, const TcpHeader &header,
                      Ptr<const TcpSocketBase> socket) {
  Address peer;
  if (socket->GetPeerName(peer) != 0) return;
  auto found = flow_of_client.find({InetSocketAddress::ConvertFrom(peer).GetIpv4().Get(),
                                    header.GetSourcePort()});
  if (found != flow_of_client.end()) Note(flows[found->second]);
}

void Forwarded(const Ipv4Header &, Ptr<const Packet>, uint32_t) { hops++; }

void Connected(uint32_t number, Ptr<Socket> socket) {
  Flow &flow = flows[number];
  while (flow.sent < flow.bytes) {
    uint64_t size = std::min<uint64_t>(SEGMENT, flow.bytes - flow.sent);
    int sent = socket->Send(Create<Packet>(size));
    if (sent <= 0) NS_FATAL_ERROR("a flow is larger than the buffer");
    flow.sent += sent;
  }
  socket->Close();
}

void Start(uint32_t number) {
  Flow &flow = flows[number];
  flow.socket = Socket::CreateSocket(servers.Get(flow.source), TcpSocketFactory::GetTypeId());
  flow.socket->Bind();
  Address own;
  flow.socket->GetSockName(own);
  uint16_t port = InetSocketAddress::ConvertFrom(own).GetPort();
  flow_of_client[{addresses[flow.source].Get(), port}] = number;
  flow.socket->TraceConnectWithoutContext("Tx", MakeBoundCallback(&Sent, number));
  flow.socket->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, number));
  flow.socket->SetConnectCallback(MakeBoundCallback(&Connected, number),
                                  MakeNullCallback<void, Ptr<Socket>>());
  flow.socket->Connect(InetSocketAddress(addresses[flow.destination], PORT));
}

void Take(Ptr<Socket> socket) {
  while (Ptr<Packet> packet = socket->Recv()) {
    if (packet->GetSize() == 0) break;
  }
}

void Accept(Ptr<Socket> socket, const Address &) { socket->SetRecvCallback(MakeCallback(&Take)); }

// The interface of a new link at either end; addresses are given here, so that no queueing
// discipline comes with them.
std::pair<uint32_t, uint32_t> Connect(PointToPointHelper &helper, Ptr<Node> one, Ptr<Node> other,
                                      Ipv4Address first, Ipv4Address second, Ipv4Mask mask) {
  NetDeviceContainer devices = helper.Install(one, other);
  uint32_t made[2];
  for (uint32_t end = 0; end < 2; end++) {
    Ptr<Ipv4> ipv4 = (end == 0 ? one : other)->GetObject<Ipv4>();
    made[end] = ipv4->AddInterface(devices.Get(end));
    ipv4->AddAddress(made[end], Ipv4InterfaceAddress(end == 0 ? first : second, mask));
    ipv4->SetUp(made[end]);
  }
  return {made[0], made[1]};
}

void Route(Ptr<Node> node, uint32_t tor, uint32_t interface) {
  static Ipv4StaticRoutingHelper helper;
  Ipv4Address prefix((10u << 24) | (tor << 16));
  helper.GetStaticRouting(node->GetObject<Ipv4>())
      ->AddNetworkRouteTo(prefix, Ipv4Mask("255.255.0.0"), interface);
}

void Build() {
  servers.Create(PODS * TORS * SERVERS);
  tors.Create(PODS * TORS);
  spines.Create(PODS * SPINES);
  cores.Create(SPINES * CORE_LINKS);
  InternetStackHelper stack;
  Ipv4StaticRoutingHelper routing;
  stack.SetRoutingHelper(routing);
  stack.SetIpv6StackInstall(false);
  stack.InstallAll();
  PointToPointHelper edge, fabric;
  for (auto *helper : {&edge, &fabric}) {
    helper->SetChannelAttribute("Delay", StringValue("1us"));
    helper->SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("32MiB"));
  }
  edge.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
  fabric.SetDeviceAttribute("DataRate", StringValue("400Gbps"));
  for (uint32_t server = 0; server < servers.GetN(); server++) {
    uint32_t tor = server / SERVERS, index = server % SERVERS;
    Ipv4Address own((10u << 24) | (tor << 16) | (index << 8) | 1), gate(own.Get() + 1);
    addresses.push_back(own);
    auto ends = Connect(edge, servers.Get(server), tors.Get(tor), own, gate, "255.255.255.0");
    routing.GetStaticRouting(servers.Get(server)->GetObject<Ipv4>())
        ->SetDefaultRoute(gate, ends.first);
  }
  uint32_t link = 0;
  auto next = [&link]() { return Ipv4Address((172u << 24) | (16u << 16) | (4 * link++)); };
  auto connect = [&](Ptr<Node> one, Ptr<Node> other) {
    Ipv4Address base = next();
    return Connect(fabric, one, other, Ipv4Address(base.Get() + 1), Ipv4Address(base.Get() + 2),
                   "255.255.255.252");
  };
  // Up to the spine, and from there to the core, that the destination's ToR has; down to it.
  for (uint32_t spine = 0; spine < spines.GetN(); spine++) {
    uint32_t pod = spine / SPINES, index = spine % SPINES;
    for (uint32_t offset = 0; offset < TORS; offset++) {
      uint32_t tor = pod * TORS + offset;
      auto ends = connect(tors.Get(tor), spines.Get(spine));
      Route(spines.Get(spine), tor, ends.second);
      for (uint32_t to = 0; to < tors.GetN(); to++) {
        if (to != tor && to % SPINES == index) Route(tors.Get(tor), to, ends.first);
      }
    }
    for (uint32_t offset = 0; offset < CORE_LINKS; offset++) {
      uint32_t core = index * CORE_LINKS + offset;
      auto ends = connect(spines.Get(spine), cores.Get(core));
      for (uint32_t to = 0; to < tors.GetN(); to++) {
        if (to / TORS == pod) Route(cores.Get(core), to, ends.second);
        else if (to / TORS % CORE_LINKS == offset) Route(spines.Get(spine), to, ends.first);
      }
    }
  }
  for (auto *layer : {&tors, &spines, &cores}) {
    for (uint32_t node = 0; node < layer->GetN(); node++) {
      layer->Get(node)->GetObject<Ipv4L3Protocol>()->TraceConnectWithoutContext(
          "UnicastForward", MakeCallback(&Forwarded));
    }
  }
}

void Configure() {
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(50 << 20));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(50 << 20));
  Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(1)));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
  Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MicroSeconds(106)));
  Config::SetDefault("ns3::TcpSocketBase::ReTxThreshold", UintegerValue(2048));
}

void Listen() {
  for (uint32_t server = 0; server < servers.GetN(); server++) {
    Ptr<Socket> socket = Socket::CreateSocket(servers.Get(server), TcpSocketFactory::GetTypeId());
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
    socket->Listen();
    socket->ShutdownSend();
    socket->TraceConnectWithoutContext("Tx", MakeCallback(&Answered));
    socket->TraceConnectWithoutContext("Rx", MakeCallback(&ReceivedAtServer));
    socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
                              MakeCallback(&Accept));
  }
}

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int count, char **arguments) {
  if (count != 2) {
    std::cerr << "give a file of flows\n";
    return 2;
  }
  std::ifstream file(arguments[1]);
  std::string line;
  while (std::getline(file, line)) {
    Flow flow;
    char comma;
    std::istringstream text(line);
    text >> flow.source >> comma >> flow.destination >> comma >> flow.start_ns >> comma >> flow.bytes;
    if (!text || flow.source >= 128 || flow.destination >= 128 || flow.bytes == 0) {
      std::cerr << arguments[1] << ":" << flows.size() + 1 << ": give source, destination (below "
                << "128), start in ns, bytes\n";
      return 2;
    }
    flows.push_back(flow);
  }
  Configure();
  Build();
  Listen();
  for (uint32_t flow = 0; flow < flows.size(); flow++) {
    Simulator::Schedule(NanoSeconds(flows[flow].start_ns), &Start, flow);
  }
  // TIME_WAIT would go on for minutes with nothing in it.
  Simulator::Stop(NanoSeconds(flows.back().start_ns) + Seconds(1));
  double before = ProcessorSeconds();
  Simulator::Run();
  double seconds = ProcessorSeconds() - before;
  double total = 0, first = 0;
  uint64_t done = 0;
  for (const Flow &flow : flows) {
    if (flow.last_ns < 0) continue;
    total += flow.last_ns - flow.first_ns;
    first += flow.first_received_ns - flow.first_ns;
    done++;
  }
  std::printf("{\"flows\": %lu, \"packets\": %lu, \"packet_hops\": %lu, \"mean_fct_us\": %.3f, "
              "\"processor_seconds\": %.3f}\n",
              done, packets, hops, total / 1e3 / done, seconds);
  return 0;
}
