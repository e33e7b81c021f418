// Finish times of flows on a platform, by SimGrid:
//   simgrid_flows PLATFORM.xml FLOWS [--cfg=...]
// FLOWS has a line "src dst bytes start" for each flow; hosts are the numbers
// behind the last '-' of SimGrid's host names.
#include <simgrid/s4u.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
    int src, dst;
    double bytes, start, end;
};

static std::vector<Flow> flows;
static std::vector<sg4::Host *> hosts;

static int number(const sg4::Host *h)
{
    const std::string &name = h->get_name();
    return std::atoi(name.c_str() + name.find_last_of("-h") + 1);
}

static void sender(int i)
{
    Flow &f = flows[i];
    sg4::this_actor::sleep_until(f.start);
    sg4::Comm::sendto(hosts[f.src], hosts[f.dst], f.bytes);
    f.end = sg4::Engine::get_clock();
}

int main(int argc, char **argv)
{
    sg4::Engine e(&argc, argv);
    e.load_platform(argv[1]);
    hosts = e.get_all_hosts();
    std::sort(hosts.begin(), hosts.end(),
              [](auto *a, auto *b) { return number(a) < number(b); });
    FILE *in = std::fopen(argv[2], "r");
    Flow f{};
    while (in && std::fscanf(in, "%d %d %lf %lf", &f.src, &f.dst, &f.bytes,
                             &f.start) == 4)
        flows.push_back(f);
    for (int i = 0; i < (int)flows.size(); i++)
        sg4::Actor::create("flow", hosts[flows[i].src], sender, i);
    e.run();
    for (const Flow &g : flows)
        std::printf("%.12f\n", g.end);
}
