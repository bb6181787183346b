"""The topology of a worker with several NICs as NCCL's XML: each NIC under its own switch, together with a GPU."""
import os

PCI = 'link_speed="8.0 GT/s PCIe" link_width="16"'


def describe(rates):
    lines = ['<system version="1">', '  <cpu numaid="0" arch="x86_64">']
    for link, rate in enumerate(rates):
        bus = f"0000:{link + 1}"
        lines += [f'    <pci busid="{bus}0:00.0" class="0x060400" {PCI}>',
                  f'      <pci busid="{bus}1:00.0" class="0x030200" {PCI}><gpu dev="{link}" sm="70"/></pci>',
                  f'      <pci busid="{bus}2:00.0" class="0x020000" {PCI}><nic>',
                  f'        <net name="eth{link}" dev="{link}" speed="{rate / 1e6:g}" port="1"/>', "      </nic></pci>",
                  "    </pci>"]
    return "\n".join(lines + ["  </cpu>", "</system>", ""])


def write(folder, host, rates):
    path = os.path.join(folder, f"machine{host}.xml")
    with open(path, "w") as file:
        file.write(describe(rates))
    return path
