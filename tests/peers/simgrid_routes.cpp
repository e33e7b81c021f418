// Prints every route of a SimGrid platform, one a line:
//   source destination latency link@bandwidth ...
// Hosts are numbered by the digits of their names (node-12.x).
#include <cstdio>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

int main(int argc, char **argv)
{
    sg::Engine e(&argc, argv);

    e.load_platform(argv[1]);
    e.seal_platform();
    std::map<int, sg::Host *> hosts;
    for (auto *h : e.get_all_hosts()) {
        const std::string &n = h->get_name();
        hosts[std::stoi(n.substr(n.find('-') + 1))] = h;
    }
    for (auto &[i, u] : hosts)
        for (auto &[j, v] : hosts) {
            if (i == j)
                continue;
            std::vector<sg::Link *> links;
            double latency = 0;

            u->route_to(v, links, &latency);
            std::printf("%d %d %.9g", i, j, latency);
            for (auto *l : links)
                std::printf(" %s@%.9g", l->get_cname(), l->get_bandwidth());
            std::printf("\n");
        }
}
